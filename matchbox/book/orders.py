"""Order nodes: their cells, their place in a queue, the index that finds them by account and
order_id. Kernels."""

from matchbox.atomics import U
from matchbox.book.hashing import slot_of
from matchbox.book.levels import level_emptied, level_filled
from matchbox.book.pages import page_at
from matchbox.book.ranks import LOW6, give, take
from matchbox.book.state import FREE_ORDERS
from matchbox.jit import kernel

ORDER_ID, LEAVES, REFERENCE, OWNER, GROUP = U(2), U(3), U(4), U(5), U(6)


@kernel
def next_of(b, node):
    return U(b.halves[node + node])


@kernel
def previous_of(b, node):
    return U(b.halves[node + node + U(1)])


@kernel
def set_next(b, node, other):
    b.halves[node + node] = other


@kernel
def set_previous(b, node, other):
    b.halves[node + node + U(1)] = other


@kernel
def level_of(b, node):
    return U(b.halves[node + node + U(2)])


@kernel
def chain_of(b, node):
    return U(b.halves[node + node + U(3)])


@kernel
def set_chain(b, node, other):
    b.halves[node + node + U(3)] = other


@kernel
def account_of(b, node):
    return b.cells[node + OWNER] >> U(32)


@kernel
def order_slot(b, account, order_id):
    return slot_of(b.secrets, b.order_heads, order_id, account)


@kernel
def slot_of_node(b, node):
    return order_slot(b, account_of(b, node), b.cells[node + ORDER_ID])


@kernel
def find_order(b, slot, account, order_id):
    """The live order of an account by this id, or 0."""
    node = U(b.order_heads[slot])
    while node and (b.cells[node + ORDER_ID] != order_id or account_of(b, node) != account):
        node = chain_of(b, node)
    return node


@kernel
def index_order(b, slot, node):
    set_chain(b, node, b.order_heads[slot])
    b.order_heads[slot] = node


@kernel
def unindex_order(b, slot, node):
    at = U(b.order_heads[slot])
    if at == node:
        b.order_heads[slot] = chain_of(b, node)
        return
    while chain_of(b, at) != node:
        at = chain_of(b, at)
    set_chain(b, at, chain_of(b, node))


@kernel
def forget_order(b, slot, node):
    """Take an order that is out of its queue out of the index, and free its node."""
    unindex_order(b, slot, node)
    give(b.counts, FREE_ORDERS, b.free_orders, node)


@kernel
def leave_queue(b, book, node):
    """Take an order out of its level."""
    level = level_of(b, node)
    after, before = next_of(b, node), previous_of(b, node)
    set_next(b, before, after)
    set_previous(b, after, before)
    b.depth[level] -= b.cells[node + LEAVES]
    if after == before:  # both are the level
        level_emptied(b, book, level)


@kernel
def level_at(b, book, rank):
    """The level of a rank, its page opened if need be: for an order that will rest there."""
    return (page_at(b, book, rank >> U(6)) << U(6)) | (rank & LOW6)


@kernel
def join_queue(b, book, level, rank, node, leaves):
    """Append an order to the queue of a level."""
    tail = previous_of(b, level)
    set_next(b, tail, node)
    set_previous(b, level, node)
    b.cells[node] = level | (tail << U(32))
    b.halves[node + node + U(2)] = level
    b.cells[node + LEAVES] = leaves
    b.depth[level] += leaves
    if tail == level:
        level_filled(b, book, level, rank)


@kernel
def new_order(b):
    """A free node; there must be one."""
    return take(b.counts, FREE_ORDERS, b.free_orders)
