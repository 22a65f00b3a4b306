"""Cancel, reduce and replace: what changes an order that rests. Kernels."""

from matchbox.atomics import U
from matchbox.book.fields import (
    account_of,
    flags_of,
    head_of,
    instrument_of,
    new_order_id_of,
    order_id_of,
    price_of_command,
    quantity_of,
    type_of,
)
from matchbox.book.levels import book_at, rank_at
from matchbox.book.match import crosses, match
from matchbox.book.orders import (
    LEAVES,
    ORDER_ID,
    OWNER,
    REFERENCE,
    find_order,
    forget_order,
    index_order,
    join_queue,
    leave_queue,
    level_at,
    level_of,
    next_of,
    order_slot,
    previous_of,
    unindex_order,
)
from matchbox.book.ranks import price_of, rank_of
from matchbox.book.reports import meta, reject, report, where
from matchbox.book.rules import NO_FAULT, is_open, is_quantity, level_fault
from matchbox.constants import QUANTITY_MAX, CommandFlag, CommandType, Kind, Reason, ReportFlag
from matchbox.jit import kernel

CANCELED_USER = meta(Kind.CANCELED, Reason.USER)
RESTATED_REDUCE = meta(Kind.RESTATED, Reason.REDUCE)
REPLACED = meta(Kind.REPLACED)
REQUEUED = meta(Kind.REPLACED, flags=ReportFlag.REQUEUED)


@kernel
def target_of(b, words, at, slot):
    """The order that a command means, or 0. Instrument 0 is any."""
    node = find_order(b, slot, account_of(words, at), order_id_of(words, at))
    instrument = instrument_of(head_of(words, at))
    if node and instrument and book_at(b, level_of(b, node)) >> U(1) != instrument:
        return U(0)
    return node


@kernel
def place_of(b, node):
    """An order's book, its price, and instrument and side as reports have them."""
    level = level_of(b, node)
    book = book_at(b, level)
    return book, price_of(book, rank_at(b, level)), where(book >> U(1), book & U(1))


@kernel
def report_order(b, outbox, count, word5, node, contra, price, quantity, command):
    reference, owner = b.cells[node + REFERENCE], b.cells[node + OWNER]
    return report(b, outbox, count, word5, reference, contra, price, quantity, owner, command)


@kernel(entry=True)
def reject_change(b, words, at, node, fault, command, outbox, count):
    """Price and quantity as sent; the order as it is."""
    _, _, place = place_of(b, node)
    reference, owner = b.cells[node + REFERENCE], b.cells[node + OWNER]
    order_id, price, quantity = (
        order_id_of(words, at),
        price_of_command(words, at),
        quantity_of(words, at),
    )
    return reject(
        b, outbox, count, fault, place, reference, order_id, price, quantity, owner, command
    )


@kernel
def cancel(b, slot, node, command, outbox, count):
    book, price, place = place_of(b, node)
    order_id, leaves = b.cells[node + ORDER_ID], b.cells[node + LEAVES]
    word5 = place | CANCELED_USER
    count = report_order(b, outbox, count, word5, node, order_id, price, leaves, command)
    leave_queue(b, book, node)
    forget_order(b, slot, node)
    return count


@kernel
def reduce(b, words, at, slot, node, command, outbox, count):
    """Lower an order's leaves to `quantity`; it keeps its place. To 0 is a cancel."""
    quantity, leaves = quantity_of(words, at), b.cells[node + LEAVES]
    fault = NO_FAULT
    if flags_of(head_of(words, at)):
        fault = U(Reason.INVALID_FLAGS)
    elif quantity > U(QUANTITY_MAX):
        fault = U(Reason.INVALID_QUANTITY)
    elif quantity >= leaves:
        fault = U(Reason.NOT_REDUCED)
    if fault != NO_FAULT:
        return reject_change(b, words, at, node, fault, command, outbox, count)
    if quantity == U(0):
        return cancel(b, slot, node, command, outbox, count)
    _, price, place = place_of(b, node)
    b.cells[node + LEAVES] = quantity
    b.depth[level_of(b, node)] -= leaves - quantity
    word5, order_id = place | RESTATED_REDUCE, b.cells[node + ORDER_ID]
    return report_order(b, outbox, count, word5, node, order_id, price, quantity, command)


@kernel
def rename(b, slot, node, account, new_order_id):
    """Index an order under another id."""
    if b.cells[node + ORDER_ID] != new_order_id:
        unindex_order(b, slot, node)
        b.cells[node + ORDER_ID] = new_order_id
        index_order(b, order_slot(b, account, new_order_id), node)


@kernel
def replace_fault(b, words, at, node, book, keeps, trades):
    """Why an order cannot be replaced so, or NO_FAULT."""
    account, new_order_id = account_of(words, at), new_order_id_of(words, at)
    quantity, rank = quantity_of(words, at), rank_of(book, price_of_command(words, at))
    if not is_open(b, book >> U(1)):
        return U(Reason.INSTRUMENT_NOT_OPEN)
    if flags_of(head_of(words, at)) & ~U(CommandFlag.REQUEUE):
        return U(Reason.INVALID_FLAGS)
    if not is_quantity(quantity):
        return U(Reason.INVALID_QUANTITY)
    if new_order_id != b.cells[node + ORDER_ID]:
        if find_order(b, order_slot(b, account, new_order_id), account, new_order_id):
            return U(Reason.DUPLICATE_ORDER_ID)
    if keeps or trades:
        return NO_FAULT
    alone = next_of(b, node) == previous_of(b, node)  # both are its level
    leaves = b.cells[node + LEAVES]
    fault, _ = level_fault(b, book, rank, quantity, alone, level_of(b, node), leaves)
    return fault


@kernel
def replace(b, words, at, slot, node, command, outbox, count):
    """New price, quantity and id. No more at the same price keeps its place; all else goes to the
    back, and may trade on the way."""
    account, new_order_id = account_of(words, at), new_order_id_of(words, at)
    new_price, quantity = price_of_command(words, at), quantity_of(words, at)
    book, price, place = place_of(b, node)
    leaves, reference = b.cells[node + LEAVES], b.cells[node + REFERENCE]
    rank, opposite = rank_of(book, new_price), book ^ U(1)
    limit = rank_of(opposite, new_price)
    requeue = flags_of(head_of(words, at)) != U(0)
    keeps = new_price == price and quantity <= leaves and not requeue
    trades = crosses(b, opposite, limit)
    fault = replace_fault(b, words, at, node, book, keeps, trades)
    if fault != NO_FAULT:
        return reject_change(b, words, at, node, fault, command, outbox, count)
    word5 = place | (REPLACED if keeps else REQUEUED)
    count = report_order(b, outbox, count, word5, node, new_order_id, new_price, quantity, command)
    if keeps:
        rename(b, slot, node, account, new_order_id)
        b.cells[node + LEAVES] = quantity
        b.depth[level_of(b, node)] -= leaves - quantity
        return count
    leave_queue(b, book, node)
    if trades:
        count, quantity = match(
            b, outbox, count, place, opposite, limit, quantity, reference, command
        )
        if quantity == U(0):
            forget_order(b, slot, node)
            return count
    rename(b, slot, node, account, new_order_id)
    join_queue(b, book, level_at(b, book, rank), rank, node, quantity)
    return count


@kernel(entry=True)
def reject_unknown(b, words, at, command, outbox, count):
    """There is no such order, or not for this account: nobody learns which."""
    head, owner = head_of(words, at), account_of(words, at) << U(32)
    price, quantity = price_of_command(words, at), quantity_of(words, at)
    if type_of(head) == U(CommandType.CANCEL):
        price, quantity = price * 0, U(0)
    place, order_id = instrument_of(head), order_id_of(words, at)
    fault = U(Reason.UNKNOWN_ORDER)
    return reject(b, outbox, count, fault, place, U(0), order_id, price, quantity, owner, command)


@kernel
def change(b, words, at, slot, command, outbox, count):
    """Cancel, reduce or replace."""
    node = target_of(b, words, at, slot)
    if node == U(0):
        return reject_unknown(b, words, at, command, outbox, count)
    kind = type_of(head_of(words, at))
    if kind == U(CommandType.CANCEL):
        return cancel(b, slot, node, command, outbox, count)
    if kind == U(CommandType.REDUCE):
        return reduce(b, words, at, slot, node, command, outbox, count)
    return replace(b, words, at, slot, node, command, outbox, count)
