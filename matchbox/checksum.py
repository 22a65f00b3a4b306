"""Checksums: of bytes, and chained through the records of logs and captures. Kernels.

checksum = CRC-32C, without final inversion, of all bytes of the record but the checksum itself,
seeded with the checksum of the record before. So a record is valid only behind its predecessor:
one that is stale, misplaced or from another log does not fit, whatever it holds.

A CRC is linear: crc(seed, data) = crc(0, data) xor advance(seed, length of data). `advance` is
four table look-ups, so the long part, crc(0, data), of many records can be under way at once and
only the look-ups wait for one another:
3.4 instead of 6.6 ns a record.
"""

import numpy as np

from matchbox.atomics import CRC_TABLE, U, crc32c_portable, crc32c_u32, crc32c_u64
from matchbox.jit import kernel

SUMMED_BYTES = 60


def _advance_table() -> np.ndarray:
    """u64[4 * 256]: what a seed's byte k with value v becomes after SUMMED_BYTES zero bytes."""
    states = np.uint64(1) << np.arange(
        32, dtype=np.uint64
    )  # linear: 32 single bits tell everything
    for _ in range(SUMMED_BYTES):
        states = (states >> U(8)) ^ CRC_TABLE[(states & U(0xFF)).astype(np.int64)]
    table = np.zeros((4, 256), np.uint64)
    for byte in range(4):
        for bit in range(8):
            set_in = (np.arange(256) >> bit) & 1 == 1
            table[byte, set_in] ^= states[8 * byte + bit]
    return table.reshape(-1)


ADVANCE = _advance_table()
BYTE = U(0xFF)
HIGH_HALF = U(0xFFFFFFFF00000000)
LOW_HALF = U(0xFFFFFFFF)


@kernel
def advance(seed):
    """A seed after SUMMED_BYTES zero bytes."""
    return (
        ADVANCE[seed & BYTE]
        ^ ADVANCE[U(256) + ((seed >> U(8)) & BYTE)]
        ^ ADVANCE[U(512) + ((seed >> U(16)) & BYTE)]
        ^ ADVANCE[U(768) + ((seed >> U(24)) & BYTE)]
    )


@kernel
def sum_record(words, at, sequence, seed):
    """Of a command record, or a link, at words[at:at + 8] with `sequence` for its word 1; checksum
    in word 0, low."""
    crc = crc32c_u64(crc32c_u32(seed, words[at] >> U(32)), sequence)
    crc = crc32c_u64(
        crc32c_u64(crc32c_u64(crc, words[at + U(2)]), words[at + U(3)]), words[at + U(4)]
    )
    return crc32c_u64(
        crc32c_u64(crc32c_u64(crc, words[at + U(5)]), words[at + U(6)]), words[at + U(7)]
    )


@kernel
def sum_output(words, at, seed):
    """Of a report record at words[at:at + 8]; checksum in word 6, low."""
    crc = crc32c_u64(crc32c_u64(crc32c_u64(seed, words[at]), words[at + U(1)]), words[at + U(2)])
    crc = crc32c_u64(
        crc32c_u64(crc32c_u64(crc, words[at + U(3)]), words[at + U(4)]), words[at + U(5)]
    )
    return crc32c_u64(crc32c_u32(crc, words[at + U(6)] >> U(32)), words[at + U(7)])


@kernel(entry=True)
def sum_bytes(data):
    crc = U(0)
    for i in range(data.size):
        crc = crc32c_portable(crc, U(data[U(i)]), 1)
    return crc


def crc32c(data: bytes) -> int:
    """CRC-32C of `data`, without its inversions. For headers; called from Python."""
    return int(sum_bytes(np.frombuffer(bytearray(data), np.uint8)))
