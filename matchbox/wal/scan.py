"""Reading a log: which records are valid, and what stands behind the last one. Kernels."""

from matchbox.atomics import U
from matchbox.checksum import LOW_HALF, sum_output, sum_record
from matchbox.constants import IGNORABLE_TYPE_BIT, CommandType, Kind
from matchbox.jit import kernel

BYTE = U(0xFF)


@kernel
def is_type(kind):
    """A type of record that this reader knows or may skip."""
    outside = kind >= U(CommandType.ENTER) and kind <= U(CommandType.STATE)
    inside = kind >= U(CommandType.GENESIS) and kind <= U(CommandType.REFUSE)
    return outside or inside or kind & U(IGNORABLE_TYPE_BIT) != U(0)


@kernel(entry=True)
def scan_commands(words, first, last, sequence, chain):
    """Follow the chain over slots [first, last) of `words` (u64, eight a slot).

    Returns the first slot that is not valid behind `sequence` and `chain`, or `last`; the sequence
    and chain there.
    """
    slot = first
    while slot < last:
        at = slot << U(3)
        crc = sum_record(words, at, words[at + U(1)], chain)
        if words[at] & LOW_HALF != crc or words[at + U(1)] != sequence + U(1):
            break
        if not is_type(words[at + U(3)] & BYTE):
            break
        chain = crc
        sequence += U(1)
        slot += U(1)
    return slot, sequence, chain


@kernel(entry=True)
def scan_reports(words, first, last, sequence, chain):
    """The same for report records."""
    slot = first
    while slot < last:
        at = slot << U(3)
        crc = sum_output(words, at, chain)
        kind = (words[at + U(5)] >> U(32)) & BYTE
        if words[at + U(6)] & LOW_HALF != crc or words[at] != sequence + U(1):
            break
        if kind < U(Kind.ACCEPTED) or kind > U(Kind.STATE):
            break
        chain = crc
        sequence += U(1)
        slot += U(1)
    return slot, sequence, chain


@kernel(entry=True)
def link_checksum(words, salt):
    """Checksum that the link at words[0:8] should have."""
    return sum_record(words, U(0), words[1], salt)


@kernel(entry=True)
def first_difference(words, logged, first, count):
    """First of `count` outbox entries that is not what slots `first`… of the report log hold, or
    `count`.

    The checksum half is left out: in the outbox it holds a login.
    """
    for entry in range(count):
        at, there = U(entry) << U(3), (first + U(entry)) << U(3)
        for word in range(8):
            different = words[at + U(word)] ^ logged[there + U(word)]
            if word == 6:
                different >>= U(32)
            if different:
                return U(entry)
    return U(count)
