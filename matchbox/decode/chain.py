"""The chain of checksums through the records of a capture file. Kernels.

The same rule as in the log: a record's checksum is the CRC-32C, without final inversion, of its
bytes 4-63 seeded with the checksum of the record before. So it is valid behind its predecessor
only.
"""

from matchbox.atomics import U
from matchbox.checksum import LOW_HALF, advance, sum_record
from matchbox.jit import kernel

LINE_SHIFT = U(3)


@kernel(entry=True)
def seal(words, sealed, number, chain):
    """Copy records into `sealed` as a file holds them: the first becomes record `number`.

    words, sealed: u64, eight a record. Returns the last checksum.
    """
    for record in range(U(words.size) >> LINE_SHIFT):
        at = U(record) << LINE_SHIFT
        chain = advance(chain) ^ sum_record(words, at, number, U(0))
        sealed[at] = (words[at] & ~LOW_HALF) | chain
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
        crc = advance(chain) ^ sum_record(sealed, at, sealed[at + U(1)], U(0))
        if sealed[at] & LOW_HALF != crc or sealed[at + U(1)] != number:
            return U(record), chain
        words[at] = sealed[at] & ~LOW_HALF
        words[at + U(1)] = U(0)
        for word in range(2, 8):
            words[at + U(word)] = sealed[at + U(word)]
        chain = crc
        number += U(1)
    return count, chain
