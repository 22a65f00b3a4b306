"""A new order. Kernels.

Checks come first and change nothing. An order that would trade needs no check of room: when a
remainder of it rests, the trade has just freed an order node and emptied a level, and its own level
did not exist (a book is never crossed). So only an order that rests at once can meet a full book or
a level whose total would overflow.
"""

from matchbox.atomics import U
from matchbox.book.fields import (
    account_of,
    flags_of,
    group_of,
    head_of,
    instrument_of,
    login_of,
    order_id_of,
    price_of_command,
    quantity_of,
    side_of,
)
from matchbox.book.match import crosses, match
from matchbox.book.orders import (
    GROUP,
    ORDER_ID,
    OWNER,
    REFERENCE,
    find_order,
    index_order,
    join_queue,
    level_at,
    new_order,
)
from matchbox.book.ranks import rank_of
from matchbox.book.reports import meta, reject, report, where
from matchbox.book.rules import NO_FAULT, is_open, is_quantity, level_fault
from matchbox.book.state import FREE_ORDERS, REPORTS
from matchbox.constants import InstrumentState, Kind, Reason, Tif
from matchbox.jit import kernel

ACCEPTED = meta(Kind.ACCEPTED)
CANCELED_IOC = meta(Kind.CANCELED, Reason.IOC)

IOC_BIT = U(Tif.IOC << 20)  # of the command's first word
VALID_BITS = U(0xFF | 1 << 8 | Tif.IOC << 20 | 0xFFFFFFFF << 32)
"""All that may be set in the first word of a valid enter."""


@kernel(entry=True)
def head_fault(b, head):
    """Why an enter is refused by its first word or its quantity, in the order of the rules."""
    instrument = instrument_of(head)
    if instrument >= U(b.instruments.size):
        return U(Reason.UNKNOWN_INSTRUMENT)
    if b.instruments[instrument].state == InstrumentState.UNDEFINED:
        return U(Reason.UNKNOWN_INSTRUMENT)
    if b.instruments[instrument].state != InstrumentState.OPEN:
        return U(Reason.INSTRUMENT_NOT_OPEN)
    if side_of(head) > U(1):
        return U(Reason.INVALID_SIDE)
    if (head >> U(16)) & U(15) != U(0):
        return U(Reason.INVALID_KIND)
    if (head >> U(20)) & U(15) > U(Tif.IOC):
        return U(Reason.INVALID_TIF)
    if flags_of(head) != U(0):
        return U(Reason.INVALID_FLAGS)
    return U(Reason.INVALID_QUANTITY)


@kernel
def resting_fault(b, book, rank, quantity):
    """Why an order cannot rest at once, or NO_FAULT and its level."""
    if b.counts[FREE_ORDERS] == U(0):
        return U(Reason.ORDERS_FULL), U(0)
    return level_fault(b, book, rank, quantity, False, U(0), U(0))


@kernel
def enter(b, words, at, slot, command, outbox, count):
    head, account = head_of(words, at), account_of(words, at)
    order_id, price, quantity = (
        order_id_of(words, at),
        price_of_command(words, at),
        quantity_of(words, at),
    )
    instrument, side = instrument_of(head), side_of(head)
    place = where(instrument, side)
    book = instrument * U(2) + (side & U(1))
    opposite = book ^ U(1)
    rank, limit = rank_of(book, price), rank_of(opposite, price)
    rests = head & IOC_BIT == U(0)
    trades = False
    fault, level = NO_FAULT, U(0)
    if head & ~VALID_BITS or not is_open(b, instrument) or not is_quantity(quantity):
        fault = head_fault(b, head)
    elif find_order(b, slot, account, order_id):
        fault = U(Reason.DUPLICATE_ORDER_ID)
    else:
        trades = crosses(b, opposite, limit)
        if rests and not trades:
            fault, level = resting_fault(b, book, rank, quantity)
    owner = account << U(32)
    if fault != NO_FAULT:
        return reject(
            b, outbox, count, fault, place, U(0), order_id, price, quantity, owner, command
        )
    owner |= login_of(words, at)
    reference = b.counts[REPORTS] + U(1)
    word5 = place | ACCEPTED
    count = report(b, outbox, count, word5, reference, order_id, price, quantity, owner, command)
    if trades:
        count, quantity = match(
            b, outbox, count, place, opposite, limit, quantity, reference, command
        )
        if quantity == U(0):
            return count
    if not rests:
        word5 = place | CANCELED_IOC
        return report(b, outbox, count, word5, reference, order_id, price, quantity, owner, command)
    if trades:
        level = level_at(b, book, rank)
    node = new_order(b)
    b.cells[node + ORDER_ID] = order_id
    b.cells[node + REFERENCE] = reference
    b.cells[node + OWNER] = owner
    b.cells[node + GROUP] = group_of(words, at)
    index_order(b, slot, node)
    join_queue(b, book, level, rank, node, quantity)
    return count
