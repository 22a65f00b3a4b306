"""Matching: an aggressor against the resting orders of the other side, best price first, then in
time. Kernels."""

import numpy as np

from matchbox.atomics import U, prefetch
from matchbox.book.levels import level_emptied
from matchbox.book.orders import (
    LEAVES,
    ORDER_ID,
    OWNER,
    REFERENCE,
    account_of,
    forget_order,
    next_of,
    order_slot,
    set_next,
    set_previous,
    slot_of_node,
)
from matchbox.book.ranks import price_of
from matchbox.book.reports import meta, report
from matchbox.constants import Kind
from matchbox.jit import kernel

EXECUTED = meta(Kind.EXECUTED)


@kernel
def fetch_behind(b, node):
    """Bring in the order two places behind in the queue, and the index slot of the one between."""
    second = next_of(b, node)
    prefetch(b.cells, next_of(b, second))
    prefetch(b.order_heads, order_slot(b, account_of(b, second), b.cells[second + ORDER_ID]))


@kernel
def crosses(b, opposite, limit):
    """Would an order trade with the `opposite` book up to rank `limit`?"""
    side = b.sides[opposite]
    return side.level != 0 and side.rank <= limit


@kernel
def match(b, outbox, count, place, opposite, limit, leaves, reference, command):
    """Trade `leaves` against `opposite` up to rank `limit`, at the resting orders' prices.

    Returns the new report count and what is left.
    """
    side = b.sides[opposite]
    while leaves and side.rank <= limit and side.level:
        level = U(side.level)
        price = price_of(opposite, side.rank)
        before = leaves
        node = next_of(b, level)
        while True:
            resting = b.cells[node + LEAVES]
            quantity = min(resting, leaves)
            count = report(
                b,
                outbox,
                count,
                place | EXECUTED,
                b.cells[node + REFERENCE],
                reference,
                price,
                quantity,
                b.cells[node + OWNER],
                command,
            )
            leaves -= quantity
            if quantity != resting:
                b.cells[node + LEAVES] = resting - quantity
                break
            after = next_of(b, node)
            fetch_behind(b, after)
            forget_order(b, slot_of_node(b, node), node)
            node = after
            if leaves == U(0) or node == level:
                break
        set_next(b, level, node)
        set_previous(b, node, level)
        b.depth[level] -= before - leaves
        if node == level:
            level_emptied(b, opposite, level)
        instrument = b.instruments[opposite >> U(1)]
        instrument.last_price = np.int64(price)
        instrument.traded = 1
    return count, leaves
