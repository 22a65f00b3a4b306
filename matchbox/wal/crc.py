"""CRC-32C of bytes, for headers: compiled, called from Python."""

import numpy as np

from matchbox.atomics import U, crc32c_portable
from matchbox.jit import kernel


@kernel(entry=True)
def sum_bytes(data):
    crc = U(0)
    for i in range(data.size):
        crc = crc32c_portable(crc, U(data[U(i)]), 1)
    return crc


def crc32c(data: bytes) -> int:
    """CRC-32C of `data`, without its inversions."""
    return int(sum_bytes(np.frombuffer(bytearray(data), np.uint8)))
