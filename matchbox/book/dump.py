"""What is in a book, read out in order: for digests, snapshots and people. Kernels."""

from matchbox.atomics import U, trailing_zeros
from matchbox.book.levels import best_from, rank_at
from matchbox.book.orders import GROUP, LEAVES, ORDER_ID, OWNER, REFERENCE, next_of
from matchbox.book.ranks import price_of
from matchbox.jit import kernel


@kernel
def level_behind(b, level):
    """The next live level of the same side, or 0."""
    page = level >> U(6)
    place = level & U(63)
    behind = b.pages[page].bits >> place >> U(1)
    if behind:
        return level + U(1) + trailing_zeros(behind)
    group = U(b.pages[page].group)
    later = b.groups[group].bits >> (b.pages[page].key & U(63)) >> U(1)
    if later:
        place = (b.pages[page].key & U(63)) + U(1) + trailing_zeros(later)
        return best_from(b, U(b.page_of[(group << U(6)) | place]))
    group = U(b.groups[group].next)
    while group and b.groups[group].bits == U(0):
        group = U(b.groups[group].next)
    if group == U(0):
        return U(0)
    return best_from(b, U(b.page_of[(group << U(6)) | trailing_zeros(b.groups[group].bits)]))


@kernel(entry=True)
def dump_orders(b, rows):
    """Write digest.ORDER rows of all live orders, as many as fit. Returns how many there are."""
    count = U(0)
    for book in range(U(b.sides.size)):
        level = U(b.sides[book].level)
        while level:
            price = price_of(U(book), rank_at(b, level))
            node = next_of(b, level)
            while node != level:
                if count < U(rows.size):
                    row = rows[count]
                    row.instrument = U(book) >> U(1)
                    row.side = U(book) & U(1)
                    row.price = price
                    row.order_id = b.cells[node + ORDER_ID]
                    row.account = b.cells[node + OWNER] >> U(32)
                    row.login = b.cells[node + OWNER] & U(0xFFFFFFFF)
                    row.leaves = b.cells[node + LEAVES]
                    row.reference = b.cells[node + REFERENCE]
                    row.group = b.cells[node + GROUP]
                count += U(1)
                node = next_of(b, node)
            level = level_behind(b, level)
    return count


@kernel(entry=True)
def front(b, instrument, side):
    """First order of a side: whether there is one, its price, order_id, leaves and reference."""
    book = instrument * U(2) + side
    level = U(b.sides[book].level)
    if level == U(0):
        return False, price_of(book, U(0)), U(0), U(0), U(0)
    node = next_of(b, level)
    cells = b.cells
    price = price_of(book, rank_at(b, level))
    return True, price, cells[node + ORDER_ID], cells[node + LEAVES], cells[node + REFERENCE]
