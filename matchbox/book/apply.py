"""One command against the book: every rule of matching is in this file. Kernels.

`reference.py` says the same in plain words and is the specification; the two give the same bytes.

Checks come first and change nothing. An order that would trade needs no check of room: when a
remainder of it rests, the trade has just freed an order node and emptied a level, and its own
level did not exist (a book is never crossed). So only an order that rests at once can meet a full
book or a level whose total would overflow.
"""

import numpy as np

from matchbox.atomics import U, prefetch
from matchbox.book.instruments import define, set_state
from matchbox.book.levels import book_at, rank_at
from matchbox.book.match import crosses, match
from matchbox.book.orders import (
    GROUP,
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
    new_order,
    next_of,
    order_slot,
    previous_of,
    unindex_order,
)
from matchbox.book.pages import find_group
from matchbox.book.ranks import LOW6, bit_of, price_of, rank_of
from matchbox.book.reports import mark_last, meta, report, where
from matchbox.book.state import AHEAD, FREE_ORDERS, LEVELS, LEVELS_LIMIT, REPORTS
from matchbox.constants import (
    LEVEL_QUANTITY_MAX,
    QUANTITY_MAX,
    CommandFlag,
    CommandType,
    InstrumentState,
    Kind,
    Reason,
    ReportFlag,
    Tif,
)
from matchbox.jit import kernel

BYTE = U(0xFF)
ACCEPTED = meta(Kind.ACCEPTED)
CANCELED_USER = meta(Kind.CANCELED, Reason.USER)
CANCELED_IOC = meta(Kind.CANCELED, Reason.IOC)
RESTATED_REDUCE = meta(Kind.RESTATED, Reason.REDUCE)
REPLACED = meta(Kind.REPLACED)
REQUEUED = meta(Kind.REPLACED, flags=ReportFlag.REQUEUED)

IOC_BIT = U(Tif.IOC << 20)  # of the command's first word
ENTER_BITS = U(0xFF | 1 << 8 | Tif.IOC << 20 | 0xFFFFFFFF << 32)
"""All that may be set in the first word of a valid enter."""

SOON, NEXT = U(8), U(4)  # look-ahead: order, order's neighbours
SLOTS_MASK = U(31)
assert AHEAD <= 31


@kernel
def is_open(b, instrument):
    """An instrument that exists and is open. Numbers come from outside."""
    return (
        instrument < U(b.instruments.size)
        and b.instruments[instrument].state == InstrumentState.OPEN
    )


@kernel
def is_quantity(quantity):
    return quantity - U(1) < U(QUANTITY_MAX)


@kernel(entry=True)
def reject(b, outbox, count, reason, place, reference, contra, price, quantity, order, command):
    word5 = place | U(Kind.REJECTED << 32) | (U(reason) << U(48))
    return report(b, outbox, count, word5, reference, contra, price, quantity, order, command)


@kernel(entry=True)
def level_exists(b, book, rank):
    """Whether any order rests at a rank. Opens nothing."""
    group = find_group(b, book, rank >> U(12))
    if group == U(0):
        return False
    page = U(b.page_of[(group << U(6)) | ((rank >> U(6)) & LOW6)])
    return page != U(0) and b.pages[page].bits & bit_of(rank) != U(0)


@kernel(entry=True)
def enter_fault(b, head, quantity):
    """Why an enter is refused before its order_id is looked at, in the order of the rules."""
    instrument = head >> U(32)
    if instrument >= U(b.instruments.size):
        return U(Reason.UNKNOWN_INSTRUMENT)
    if b.instruments[instrument].state == InstrumentState.UNDEFINED:
        return U(Reason.UNKNOWN_INSTRUMENT)
    if b.instruments[instrument].state != InstrumentState.OPEN:
        return U(Reason.INSTRUMENT_NOT_OPEN)
    if (head >> U(8)) & BYTE > U(1):
        return U(Reason.INVALID_SIDE)
    if (head >> U(16)) & U(15) != U(0):
        return U(Reason.INVALID_KIND)
    if (head >> U(20)) & U(15) > U(Tif.IOC):
        return U(Reason.INVALID_TIF)
    if (head >> U(24)) & BYTE != U(0):
        return U(Reason.INVALID_FLAGS)
    return U(Reason.INVALID_QUANTITY)


@kernel
def enter(b, words, at, slot, head, account, command, outbox, count):
    order_id, price, quantity = words[at + U(4)], np.int64(words[at + U(5)]), words[at + U(6)]
    instrument = head >> U(32)
    side = (head >> U(8)) & BYTE
    place = where(instrument, side)
    order = (words[at + U(7)] >> U(32)) | (account << U(32))
    fault = U(0)
    book, rank, level = U(0), U(0), U(0)
    trades = False
    if head & ~ENTER_BITS or not is_open(b, instrument) or not is_quantity(quantity):
        fault = enter_fault(b, head, quantity)
    elif find_order(b, slot, account, order_id):
        fault = U(Reason.DUPLICATE_ORDER_ID)
    else:
        book = instrument * U(2) + side
        rank = rank_of(book, price)
        trades = crosses(b, book ^ U(1), rank_of(book ^ U(1), price))
        if not trades and not head & IOC_BIT:
            if b.counts[FREE_ORDERS] == U(0):
                fault = U(Reason.ORDERS_FULL)
            elif b.counts[LEVELS] == b.counts[LEVELS_LIMIT] and not level_exists(b, book, rank):
                fault = U(Reason.LEVELS_FULL)
            else:
                level = level_at(b, book, rank)
                if b.depth[level] + quantity > U(LEVEL_QUANTITY_MAX):
                    fault = U(Reason.LEVEL_OVERFLOW)
    if fault:
        order = account << U(32)
        return reject(
            b, outbox, count, fault, place, U(0), order_id, price, quantity, order, command
        )

    reference = b.counts[REPORTS] + U(1)
    count = report(
        b, outbox, count, place | ACCEPTED, reference, order_id, price, quantity, order, command
    )
    if trades:
        limit = rank_of(book ^ U(1), price)
        count, quantity = match(
            b, outbox, count, place, book ^ U(1), limit, quantity, reference, command
        )
        if quantity == U(0):
            return count
    if head & IOC_BIT:
        return report(
            b,
            outbox,
            count,
            place | CANCELED_IOC,
            reference,
            order_id,
            price,
            quantity,
            order,
            command,
        )
    if trades:
        level = level_at(b, book, rank)
    node = new_order(b)
    b.cells[node + ORDER_ID] = order_id
    b.cells[node + REFERENCE] = reference
    b.cells[node + OWNER] = order
    b.cells[node + GROUP] = words[at + U(7)] & U(0xFFFFFFFF)
    index_order(b, slot, node)
    join_queue(b, book, level, rank, node, quantity)
    return count


@kernel
def target_of(b, slot, account, order_id, instrument):
    """The order that a cancel, reduce or replace means, or 0. Instrument 0 is any."""
    node = find_order(b, slot, account, order_id)
    if node and instrument and book_at(b, level_of(b, node)) >> U(1) != instrument:
        return U(0)
    return node


@kernel
def remove(b, outbox, count, slot, node, book, place, price, command):
    """Cancel on request: report, then out of queue and index."""
    count = report(
        b,
        outbox,
        count,
        place | CANCELED_USER,
        b.cells[node + REFERENCE],
        b.cells[node + ORDER_ID],
        price,
        b.cells[node + LEAVES],
        b.cells[node + OWNER],
        command,
    )
    leave_queue(b, book, node)
    forget_order(b, slot, node)
    return count


@kernel
def reduce(b, outbox, count, slot, node, book, place, price, new_price, quantity, flags, command):
    """Lower an order's leaves to `quantity`; it keeps its place. To 0 is a cancel."""
    leaves = b.cells[node + LEAVES]
    fault = U(0)
    if flags:
        fault = U(Reason.INVALID_FLAGS)
    elif quantity > U(QUANTITY_MAX):
        fault = U(Reason.INVALID_QUANTITY)
    elif quantity >= leaves:
        fault = U(Reason.NOT_REDUCED)
    reference, order_id, order = (
        b.cells[node + REFERENCE],
        b.cells[node + ORDER_ID],
        b.cells[node + OWNER],
    )
    if fault:
        return reject(
            b, outbox, count, fault, place, reference, order_id, new_price, quantity, order, command
        )
    if quantity == U(0):
        return remove(b, outbox, count, slot, node, book, place, price, command)
    b.cells[node + LEAVES] = quantity
    b.depth[level_of(b, node)] -= leaves - quantity
    return report(
        b,
        outbox,
        count,
        place | RESTATED_REDUCE,
        reference,
        order_id,
        price,
        quantity,
        order,
        command,
    )


@kernel
def rename(b, slot, node, account, new_order_id):
    """Index an order under another id."""
    if b.cells[node + ORDER_ID] != new_order_id:
        unindex_order(b, slot, node)
        b.cells[node + ORDER_ID] = new_order_id
        index_order(b, order_slot(b, account, new_order_id), node)


@kernel
def replace(
    b,
    outbox,
    count,
    slot,
    node,
    book,
    place,
    price,
    new_price,
    quantity,
    flags,
    new_order_id,
    account,
    command,
):
    """New price, quantity and id. Fewer at the same price keeps its place; all else goes to the
    back."""
    level, leaves = level_of(b, node), b.cells[node + LEAVES]
    reference, order_id, order = (
        b.cells[node + REFERENCE],
        b.cells[node + ORDER_ID],
        b.cells[node + OWNER],
    )
    rank, opposite = rank_of(book, new_price), book ^ U(1)
    limit = rank_of(opposite, new_price)
    keeps, trades = False, False
    fault = U(0)
    if not is_open(b, book >> U(1)):
        fault = U(Reason.INSTRUMENT_NOT_OPEN)
    elif flags & ~U(CommandFlag.REQUEUE):
        fault = U(Reason.INVALID_FLAGS)
    elif not is_quantity(quantity):
        fault = U(Reason.INVALID_QUANTITY)
    elif new_order_id != order_id and find_order(
        b, order_slot(b, account, new_order_id), account, new_order_id
    ):
        fault = U(Reason.DUPLICATE_ORDER_ID)
    else:
        keeps = new_price == price and quantity <= leaves and flags == U(0)
        trades = crosses(b, opposite, limit)
        if not keeps and not trades:
            alone = next_of(b, node) == previous_of(b, node)
            if (
                b.counts[LEVELS] == b.counts[LEVELS_LIMIT]
                and not alone
                and not level_exists(b, book, rank)
            ):
                fault = U(Reason.LEVELS_FULL)
            else:
                new_level = level_at(b, book, rank)
                others = b.depth[new_level] - (leaves if new_level == level else U(0))
                if others + quantity > U(LEVEL_QUANTITY_MAX):
                    fault = U(Reason.LEVEL_OVERFLOW)
    if fault:
        return reject(
            b, outbox, count, fault, place, reference, order_id, new_price, quantity, order, command
        )
    kind = REPLACED if keeps else REQUEUED
    count = report(
        b, outbox, count, place | kind, reference, new_order_id, new_price, quantity, order, command
    )
    if keeps:
        rename(b, slot, node, account, new_order_id)
        b.cells[node + LEAVES] = quantity
        b.depth[level] -= leaves - quantity
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


@kernel
def apply(b, words, at, command_sequence, outbox, count):
    """Execute the record at words[at:at + 8]; append its reports to the outbox. Returns the new
    count.

    `look_ahead` has been called for it.
    """
    head, order_id, quantity = words[at + U(3)], words[at + U(4)], words[at + U(6)]
    slot = b.slots[(at >> U(3)) & SLOTS_MASK]
    kind, instrument = head & BYTE, head >> U(32)
    account = words[at] >> U(32)
    command = account | (command_sequence << U(32))
    if kind == U(CommandType.ENTER):
        count = enter(b, words, at, slot, head, account, command, outbox, count)
    elif kind <= U(CommandType.REPLACE) and kind:
        new_price = np.int64(words[at + U(5)])
        node = target_of(b, slot, account, order_id, instrument)
        if node == U(0):
            if kind == U(CommandType.CANCEL):
                new_price, quantity = np.int64(0), U(0)
            order = account << U(32)
            count = reject(
                b,
                outbox,
                count,
                U(Reason.UNKNOWN_ORDER),
                instrument,
                U(0),
                order_id,
                new_price,
                quantity,
                order,
                command,
            )
        else:
            level = level_of(b, node)
            book = book_at(b, level)
            price = price_of(book, rank_at(b, level))
            place = where(book >> U(1), book & U(1))
            flags = (head >> U(24)) & BYTE
            if kind == U(CommandType.CANCEL):
                count = remove(b, outbox, count, slot, node, book, place, price, command)
            elif kind == U(CommandType.REDUCE):
                count = reduce(
                    b,
                    outbox,
                    count,
                    slot,
                    node,
                    book,
                    place,
                    price,
                    new_price,
                    quantity,
                    flags,
                    command,
                )
            else:
                count = replace(
                    b,
                    outbox,
                    count,
                    slot,
                    node,
                    book,
                    place,
                    price,
                    new_price,
                    quantity,
                    flags,
                    words[at + U(7)],
                    account,
                    command,
                )
    elif kind == U(CommandType.DEFINE):
        count = define(b, words, at, account, command, outbox, count)
    elif kind == U(CommandType.STATE):
        count = set_state(b, words, at, account, command, outbox, count)
    else:
        order = account << U(32)
        count = reject(
            b,
            outbox,
            count,
            U(Reason.NOT_SUPPORTED),
            instrument,
            U(0),
            order_id,
            np.int64(0),
            U(0),
            order,
            command,
        )
    mark_last(outbox, count)
    return count


# -- looking ahead ------------------------------------------------------------------------------


@kernel
def index_slot(b, words, at):
    """Index slot of a record's (account, order_id)."""
    return order_slot(b, words[at] >> U(32), words[at + U(4)])


@kernel
def prime(b, words, mask, first, last):
    """Work out the index slots of the first commands of a batch."""
    position = first
    while position < min(first + U(AHEAD), last):
        at = (position & mask) << U(3)
        b.slots[(at >> U(3)) & SLOTS_MASK] = index_slot(b, words, at)
        position += U(1)


@kernel
def look_ahead(b, words, mask, position, last):
    """Bring in what the commands behind this one will touch: index slot, then order, then its
    neighbours.

    Does not ask what kind of command it is, so there is nothing to mispredict.
    """
    if position + U(AHEAD) < last:
        at = ((position + U(AHEAD)) & mask) << U(3)
        slot = index_slot(b, words, at)
        b.slots[(at >> U(3)) & SLOTS_MASK] = slot
        prefetch(b.order_heads, slot)
        prefetch(b.cells, U(b.order_heads[b.slots[(position + SOON) & mask & SLOTS_MASK]]))
        node = U(b.order_heads[b.slots[(position + NEXT) & mask & SLOTS_MASK]])
        prefetch(b.cells, next_of(b, node))
        prefetch(b.cells, previous_of(b, node))
