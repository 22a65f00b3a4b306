"""Looking ahead: what the commands behind this one will touch is brought in while it is executed.

What is left of a fast book's time are misses on the nodes of deep queues. Three stages, 16, 8 and 4
commands ahead: the index slot, the order it leads to, the neighbours of that order. The slot that
was worked out is kept for the command itself (`slot_of_command`). Nothing here asks what kind of
command it is, so there is nothing to mispredict. Kernels.
"""

from matchbox.atomics import U, prefetch
from matchbox.book.fields import account_of, order_id_of
from matchbox.book.orders import next_of, order_slot, previous_of
from matchbox.book.state import AHEAD
from matchbox.jit import kernel

SLOT, ORDER, NEIGHBOURS = U(AHEAD), U(8), U(4)
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
def prime(b, words, mask, first, last):
    """Before a batch: the slots of its first commands."""
    position = first
    while position < min(first + SLOT, last):
        work_out(b, words, (position & mask) << U(3))
        position += U(1)


@kernel
def look_ahead(b, words, mask, position, last):
    """Before each command of a batch [.., last); the record of `position` is at
    words[(position & mask) * 8]."""
    if position + SLOT < last:
        prefetch(b.order_heads, work_out(b, words, ((position + SLOT) & mask) << U(3)))
        heads, slots = b.order_heads, b.slots
        prefetch(b.cells, U(heads[slots[(position + ORDER) & mask & SLOTS_MASK]]))
        node = U(heads[slots[(position + NEIGHBOURS) & mask & SLOTS_MASK]])
        prefetch(b.cells, next_of(b, node))
        prefetch(b.cells, previous_of(b, node))
