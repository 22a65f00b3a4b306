"""Records through the book alone: no log, no wire. For the in-process engine, recovery and tests.
Kernels."""

from matchbox.atomics import U
from matchbox.book.ahead import look_ahead, prime
from matchbox.book.apply import apply
from matchbox.book.state import OUTBOX_SOFT
from matchbox.jit import kernel


@kernel(entry=True)
def execute(b, words, mask, first, last, first_sequence, outbox):
    """Execute records [first, last) of `words` (u64, eight a record; record n is at (n & mask) *
    8).

    The first has command_sequence `first_sequence`. Stops early when the outbox holds a batch, so
    that the caller can drain it. Returns the position reached and the number of outbox entries.
    """
    count = U(0)
    position = first
    prime(b, words, mask, first, last)
    while position < last and count < U(OUTBOX_SOFT):
        look_ahead(b, words, mask, position, last)
        at = (position & mask) << U(3)
        count = apply(b, words, at, first_sequence + (position - first), outbox, count)
        position += U(1)
    return position, count
