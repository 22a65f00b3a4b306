"""The chain of checksums through the records of a capture file. Kernels.

The same rule as in the log: a record's checksum is the CRC-32C, without final inversion, of its
bytes 4-63 seeded with the checksum of the record before. So it is valid behind its predecessor
only.
"""

import numpy as np

from matchbox.atomics import U, crc32c_u32, crc32c_u64
from matchbox.jit import kernel

LOW = U(0xFFFFFFFF)
HIGH_SHIFT, LINE_SHIFT = U(32), U(3)


@kernel
def sum_record(words, at, number, chain):
    """Checksum of the record whose first word is words[at], with `number` for its word 1."""
    crc = crc32c_u64(crc32c_u32(chain, words[at] >> HIGH_SHIFT), number)
    for word in range(2, 8):
        crc = crc32c_u64(crc, words[at + U(word)])
    return crc


@kernel(entry=True)
def sum_words(words):
    """CRC-32C, not inverted, of u64[n]."""
    crc = U(0)
    for i in range(words.size):
        crc = crc32c_u64(crc, words[U(i)])
    return crc


@kernel(entry=True)
def seal(words, sealed, number, chain):
    """Copy records into `sealed` as a file holds them: the first becomes record `number`.

    words, sealed: u64, eight a record. Returns the last checksum.
    """
    for record in range(U(words.size) >> LINE_SHIFT):
        at = U(record) << LINE_SHIFT
        chain = sum_record(words, at, number, chain)
        sealed[at] = (words[at] & ~LOW) | chain
        sealed[at + U(1)] = number
        for word in range(2, 8):
            sealed[at + U(word)] = words[at + U(word)]
        number += U(1)
    return chain


@kernel(entry=True)
def unseal(sealed, words, number, chain):
    """The other way: copy records of a file into `words` as the ring wants them, as far as they are
    valid.

    Returns how many are valid, and the last checksum.
    """
    count = U(sealed.size) >> LINE_SHIFT
    for record in range(count):
        at = U(record) << LINE_SHIFT
        crc = sum_record(sealed, at, sealed[at + U(1)], chain)
        if sealed[at] & LOW != crc or sealed[at + U(1)] != number:
            return U(record), chain
        words[at] = sealed[at] & ~LOW
        words[at + U(1)] = U(0)
        for word in range(2, 8):
            words[at + U(word)] = sealed[at + U(word)]
        chain = crc
        number += U(1)
    return count, chain


def crc32c(data: bytes) -> int:
    """CRC-32C, not inverted, of whole words."""
    return int(sum_words(np.frombuffer(data, "<u8")))
