"""CRC-32C of bytes, for headers: compiled, called from Python."""

import numpy as np

from matchbox.atomics import U, crc32c_u64
from matchbox.jit import kernel


@kernel(entry=True)
def sum_words(words):
    crc = U(0)
    for i in range(words.size):
        crc = crc32c_u64(crc, words[U(i)])
    return crc


def crc32c(data: bytes) -> int:
    """CRC-32C without inversions of `data`, padded with zeros to whole words."""
    return int(sum_words(np.frombuffer(data + bytes(-len(data) % 8), np.uint64)))
