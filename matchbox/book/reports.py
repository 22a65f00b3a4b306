"""Reports, as they are written to the outbox. Kernels.

An outbox entry is eight words (schema.OUTPUT): the report, then login and account of the order it
names, then the account and low sequence of the command.
"""

from matchbox.atomics import U
from matchbox.book.state import REPORTS
from matchbox.constants import Kind, ReportFlag
from matchbox.jit import kernel

LAST = U(ReportFlag.LAST << 56)


def meta(kind, reason=0, flags=0):
    """Word 5 of a report but for instrument and side, which are or-ed in."""
    return U(kind << 32 | reason << 48 | flags << 56)


REJECTED = meta(Kind.REJECTED)


@kernel
def where(instrument, side):
    return instrument | (side << U(40))


@kernel
def report(b, outbox, count, word5, reference, contra, price, quantity, order, command):
    """Append an entry; returns the new count.

    order: login and account << 32 of the order that `reference` names; command: account and
    sequence << 32.
    """
    at = count << U(3)
    sequence = b.counts[REPORTS] + U(1)
    b.counts[REPORTS] = sequence
    outbox[at] = sequence
    outbox[at + U(1)] = reference
    outbox[at + U(2)] = contra
    outbox[at + U(3)] = U(price)
    outbox[at + U(4)] = quantity
    outbox[at + U(5)] = word5
    outbox[at + U(6)] = order
    outbox[at + U(7)] = command
    return count + U(1)


@kernel(entry=True)
def reject(b, outbox, count, fault, place, reference, contra, price, quantity, order, command):
    word5 = place | REJECTED | (fault << U(48))
    return report(b, outbox, count, word5, reference, contra, price, quantity, order, command)


@kernel
def mark_last(outbox, count):
    """The newest entry is the last of its command."""
    outbox[((count - U(1)) << U(3)) + U(5)] |= LAST
