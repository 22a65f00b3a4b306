"""Looking ahead: what the commands behind this one will touch is brought in while it is executed.

What is left of a fast book's time are misses on the nodes of deep queues. Three stages, 24, 16 and
8 commands ahead: the index slot, the order it leads to, the neighbours of that order. With half
these distances a deep book (the stream cancel45) still waits for the order's node, a tenth of the
time; with larger ones nothing is gained. The slot that was worked out is kept for the command
itself (`slot_of_command`). Nothing here asks what kind of command it is, so there is nothing to
mispredict. Kernels.
"""

from matchbox.atomics import U, prefetch
from matchbox.book.fields import account_of, order_id_of
from matchbox.book.orders import next_of, order_slot, previous_of
from matchbox.book.state import AHEAD
from matchbox.jit import kernel

SLOT, ORDER, NEIGHBOURS = U(AHEAD), U(16), U(8)
SLOTS_MASK = U(31)
assert AHEAD <= 31, "slots worked out ahead fit in the ring that keeps them"


@kernel
def slot_of_command(b, at):
    """Index slot of the (account, order_id) of the record at words[at], worked out before."""
    return b.slots[(at >> U(3)) & SLOTS_MASK]


@kernel
def work_out(b, words, at):
    slot = order_slot(b, account_of(words, at), order_id_of(words, at))
    b.slots[(at >> U(3)) & SLOTS_MASK] = slot
    return slot


@kernel
def order_ahead(b, position):
    """First order of the chain that the command at a position will search, or 0."""
    return U(b.order_heads[b.slots[position & SLOTS_MASK]])


@kernel
def fetch_order(b, position):
    prefetch(b.cells, order_ahead(b, position))


@kernel
def fetch_neighbours(b, position):
    order = order_ahead(b, position)
    prefetch(b.cells, next_of(b, order))
    prefetch(b.cells, previous_of(b, order))


@kernel
def prime(b, words, mask, first, last):
    """Before a batch: its first commands, stage by stage, so that their misses overlap.

    Batches of 16 commands on a deep book take half the time they take when only slots are worked
    out here.
    """
    end = min(first + SLOT, last)
    for position in range(first, end):
        prefetch(b.order_heads, work_out(b, words, (U(position) & mask) << U(3)))
    for position in range(first, min(first + ORDER, end)):
        fetch_order(b, U(position) & mask)
    for position in range(first, min(first + NEIGHBOURS, end)):
        fetch_neighbours(b, U(position) & mask)


@kernel
def look_ahead(b, words, mask, position, last):
    """Before each command; records up to position `last` are there, that of `position` is at
    words[(position & mask) * 8].

    Past `last` the slots are those of earlier commands: what is brought in is of no use then, and
    does no harm.
    """
    if position + SLOT < last:
        prefetch(b.order_heads, work_out(b, words, ((position + SLOT) & mask) << U(3)))
    fetch_order(b, (position + ORDER) & mask)
    fetch_neighbours(b, (position + NEIGHBOURS) & mask)
