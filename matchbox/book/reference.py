"""The specification: what the book does with each command, in plain words.

The compiled book must give the same report bytes and the same digest as this one; where they
differ, this file is right until a rule is changed here first. It is written to be read, not to be
fast.

A side is a SortedDict from price to queue; a queue is an insertion-ordered dict of orders, oldest
first. Checks come before any change, in the order in which they stand here; the first that fails
is the reason. Every command makes at least one report, and its last one says so.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sortedcontainers import SortedDict

from matchbox.book import digest
from matchbox.constants import (
    INSTRUMENTS_DEFAULT,
    LEVEL_QUANTITY_MAX,
    LEVELS_DEFAULT,
    OPERATOR_ACCOUNT,
    ORDERS_DEFAULT,
    QUANTITY_MAX,
    SCALE_MAX,
    Action,
    CommandFlag,
    CommandType,
    InstrumentState,
    Kind,
    OrderKind,
    Parameter,
    Reason,
    ReportFlag,
    Side,
    Tif,
)
from matchbox.schema import OUTPUT, OUTPUT_LAYOUT, RECORD

TRANSITIONS = {
    (Action.OPEN, InstrumentState.CLOSED): InstrumentState.OPEN,
    (Action.HALT, InstrumentState.OPEN): InstrumentState.HALTED,
    (Action.RESUME, InstrumentState.HALTED): InstrumentState.OPEN,
    (Action.CLOSE, InstrumentState.OPEN): InstrumentState.CLOSED,
    (Action.CLOSE, InstrumentState.HALTED): InstrumentState.CLOSED,
}


class Command(NamedTuple):
    """The fields of a RECORD as whole numbers. Which of them mean something depends on `type`."""

    checksum: int
    account: int
    command_sequence: int
    time_ns: int
    type: int
    side: int
    kind_tif: int
    flags: int
    instrument: int
    order_id: int
    price: int
    quantity: int
    group: int
    login: int
    new_order_id: int
    parameter: int
    value: int


assert Command._fields == RECORD.names


@dataclass
class Order:
    """A live order, or one about to trade. `reference` is its public name for life."""

    reference: int
    instrument: int
    side: int
    price: int
    leaves: int
    order_id: int
    account: int
    group: int
    login: int


@dataclass
class Instrument:
    state: InstrumentState = InstrumentState.UNDEFINED
    price_scale: int = 0
    quantity_scale: int = 0
    traded: bool = False
    last_price: int = 0


class BookSide:
    """One side of one instrument: price -> {reference: order}, oldest order first."""

    def __init__(self, side: int) -> None:
        self.side = side
        self.levels: SortedDict = SortedDict()

    def prices(self) -> list[int]:
        """Best first: bids from the highest, asks from the lowest."""
        if self.side == Side.BUY:
            return list(reversed(self.levels))
        return list(self.levels)

    def best(self) -> int | None:
        if not self.levels:
            return None
        if self.side == Side.BUY:
            return self.levels.peekitem(-1)[0]
        return self.levels.peekitem(0)[0]

    def meets(self, price: int) -> bool:
        """Would an order of the other side at `price` trade with the best order of this one?"""
        best = self.best()
        if best is None:
            return False
        if self.side == Side.BUY:
            return price <= best
        return price >= best

    def oldest(self, price: int) -> Order:
        return next(iter(self.levels[price].values()))

    def total(self, price: int) -> int:
        return sum(order.leaves for order in self.levels.get(price, {}).values())

    def add(self, order: Order) -> None:
        self.levels.setdefault(order.price, {})[order.reference] = order

    def remove(self, order: Order) -> None:
        queue = self.levels[order.price]
        del queue[order.reference]
        if not queue:
            del self.levels[order.price]


class ReferenceBook:
    """The readable book.

    Args:
        orders, levels: how many may be live, over all instruments and both sides.
        instruments: their numbers are 1 to this. Instrument 1 is open from the start.
    """

    def __init__(
        self,
        orders: int = ORDERS_DEFAULT,
        levels: int = LEVELS_DEFAULT,
        instruments: int = INSTRUMENTS_DEFAULT,
    ) -> None:
        self.orders_limit, self.levels_limit, self.instruments_limit = orders, levels, instruments
        self.instruments = {1: Instrument(InstrumentState.OPEN)}
        self.sides: dict[tuple[int, int], BookSide] = {}
        self.live: dict[tuple[int, int], Order] = {}  # by account and order_id
        self.report_sequence = 0
        self.made: list[tuple[int, ...]] = []  # OUTPUT rows of the current call

    def execute(self, records: np.ndarray) -> np.ndarray:
        """Execute RECORD[n], which carry their command_sequence; returns their OUTPUT[m]."""
        self.made, last = [], []
        for record in records:
            self.apply(Command(*record.item()))
            last.append(len(self.made) - 1)
        outputs = np.array(self.made, OUTPUT)
        outputs["flags"][last] |= np.uint8(ReportFlag.LAST)
        return outputs

    def apply(self, command: Command) -> None:
        match command.type:
            case CommandType.ENTER:
                self.enter(command)
            case CommandType.CANCEL | CommandType.REDUCE | CommandType.REPLACE:
                self.change(command)
            case CommandType.DEFINE:
                self.define(command)
            case CommandType.STATE:
                self.set_state(command)
            case _:
                self.reject(command, Reason.NOT_SUPPORTED)

    # -- enter ----------------------------------------------------------------------------------

    def enter(self, command: Command) -> None:
        """Trade what can be traded; the rest rests (GTC) or is canceled (IOC)."""
        reason = self.refuse_enter(command)
        if reason:
            self.reject(command, reason)
            return
        order = Order(
            reference=self.report_sequence + 1,
            instrument=command.instrument,
            side=command.side,
            price=command.price,
            leaves=command.quantity,
            order_id=command.order_id,
            account=command.account,
            group=command.group,
            login=command.login,
        )
        self.report(command, Kind.ACCEPTED, order, order.order_id, order.price, order.leaves)
        self.trade(command, order)
        if order.leaves and command.kind_tif >> 4 == Tif.IOC:
            self.report_canceled(command, order, Reason.IOC)
        elif order.leaves:
            self.side(order.instrument, order.side).add(order)
            self.live[order.account, order.order_id] = order

    def refuse_enter(self, command: Command) -> Reason:
        instrument = self.instrument(command.instrument)
        kind, tif = command.kind_tif & 15, command.kind_tif >> 4
        if instrument.state == InstrumentState.UNDEFINED:
            return Reason.UNKNOWN_INSTRUMENT
        if instrument.state != InstrumentState.OPEN:
            return Reason.INSTRUMENT_NOT_OPEN
        if command.side not in (Side.BUY, Side.SELL):
            return Reason.INVALID_SIDE
        if kind != OrderKind.LIMIT:
            return Reason.INVALID_KIND
        if tif not in (Tif.GTC, Tif.IOC):
            return Reason.INVALID_TIF
        if command.flags != 0:
            return Reason.INVALID_FLAGS
        if not 1 <= command.quantity <= QUANTITY_MAX:
            return Reason.INVALID_QUANTITY
        if (command.account, command.order_id) in self.live:
            return Reason.DUPLICATE_ORDER_ID
        # An order that trades has room for its remainder: the trade filled an order and emptied a
        # level, and no order of its own side can stand at a price where it meets the other side.
        if tif == Tif.IOC or self.crosses(command.instrument, command.side, command.price):
            return Reason.NONE
        if len(self.live) == self.orders_limit:
            return Reason.ORDERS_FULL
        return self.refuse_level(
            command.instrument, command.side, command.price, command.quantity, None
        )

    def refuse_level(
        self, instrument: int, side: int, price: int, quantity: int, leaving: Order | None
    ) -> Reason:
        """Can a level take `quantity`, once the order `leaving` has left its own?"""
        book = self.side(instrument, side)
        count, total = self.level_count(), book.total(price)
        if leaving and len(book.levels[leaving.price]) == 1:
            count -= 1
        if leaving and leaving.price == price:
            total -= leaving.leaves
        if price not in book.levels and count == self.levels_limit:
            return Reason.LEVELS_FULL
        if total + quantity > LEVEL_QUANTITY_MAX:
            return Reason.LEVEL_OVERFLOW
        return Reason.NONE

    def crosses(self, instrument: int, side: int, price: int) -> bool:
        """Would an order of `side` at `price` trade?"""
        return self.side(instrument, 1 - side).meets(price)

    def trade(self, command: Command, aggressor: Order) -> None:
        """Fill from the other side: best price first, oldest first, at the resting price."""
        instrument = self.instruments[aggressor.instrument]
        other = self.side(aggressor.instrument, 1 - aggressor.side)
        while aggressor.leaves and other.meets(aggressor.price):
            price = other.best()
            assert price is not None
            resting = other.oldest(price)
            quantity = min(resting.leaves, aggressor.leaves)
            self.report(
                command,
                Kind.EXECUTED,
                resting,
                aggressor.reference,
                price,
                quantity,
                side=aggressor.side,
            )
            resting.leaves -= quantity
            aggressor.leaves -= quantity
            instrument.last_price, instrument.traded = price, True
            if not resting.leaves:
                self.take_out(resting)

    def take_out(self, order: Order) -> None:
        self.side(order.instrument, order.side).remove(order)
        del self.live[order.account, order.order_id]

    # -- cancel, reduce, replace ----------------------------------------------------------------

    def change(self, command: Command) -> None:
        """An account reaches its own orders only; an instrument other than 0 must be theirs."""
        order = self.live.get((command.account, command.order_id))
        if order is None or command.instrument not in (0, order.instrument):
            self.reject(command, Reason.UNKNOWN_ORDER)
            return
        match command.type:
            case CommandType.CANCEL:
                self.cancel(command, order)
            case CommandType.REDUCE:
                self.reduce(command, order)
            case CommandType.REPLACE:
                self.replace(command, order)

    def cancel(self, command: Command, order: Order) -> None:
        self.report_canceled(command, order, Reason.USER)
        self.take_out(order)

    def reduce(self, command: Command, order: Order) -> None:
        """`quantity` is the new total leaves. The order keeps its place; to 0 is a cancel."""
        reason = self.refuse_reduce(command, order)
        if reason:
            self.reject(command, reason, order)
        elif command.quantity == 0:
            self.cancel(command, order)
        else:
            order.leaves = command.quantity
            self.report(
                command,
                Kind.RESTATED,
                order,
                order.order_id,
                order.price,
                order.leaves,
                Reason.REDUCE,
            )

    def refuse_reduce(self, command: Command, order: Order) -> Reason:
        if command.flags != 0:
            return Reason.INVALID_FLAGS
        if not 0 <= command.quantity <= QUANTITY_MAX:
            return Reason.INVALID_QUANTITY
        if command.quantity >= order.leaves:
            return Reason.NOT_REDUCED
        return Reason.NONE

    def replace(self, command: Command, order: Order) -> None:
        """No more at the same price keeps its place; all else goes to the back, and may trade on
        the way. `quantity` is the new total leaves."""
        keeps = (
            command.price == order.price
            and command.quantity <= order.leaves
            and not command.flags & CommandFlag.REQUEUE
        )
        reason = self.refuse_replace(command, order, keeps)
        if reason:
            self.reject(command, reason, order)
            return
        new_order_id, price, quantity = command.new_order_id, command.price, command.quantity
        flags = 0 if keeps else ReportFlag.REQUEUED
        self.report(command, Kind.REPLACED, order, new_order_id, price, quantity, flags=flags)
        if keeps:
            del self.live[order.account, order.order_id]
            order.order_id, order.leaves = new_order_id, quantity
            self.live[order.account, order.order_id] = order
            return
        self.take_out(order)
        order.order_id, order.price, order.leaves = new_order_id, price, quantity
        self.trade(command, order)
        if order.leaves:
            self.side(order.instrument, order.side).add(order)
            self.live[order.account, order.order_id] = order

    def refuse_replace(self, command: Command, order: Order, keeps: bool) -> Reason:
        new_order_id = command.new_order_id
        if self.instruments[order.instrument].state != InstrumentState.OPEN:
            return Reason.INSTRUMENT_NOT_OPEN
        if command.flags & ~CommandFlag.REQUEUE:
            return Reason.INVALID_FLAGS
        if not 1 <= command.quantity <= QUANTITY_MAX:
            return Reason.INVALID_QUANTITY
        if new_order_id != order.order_id and (order.account, new_order_id) in self.live:
            return Reason.DUPLICATE_ORDER_ID
        if keeps or self.crosses(order.instrument, order.side, command.price):
            return Reason.NONE
        return self.refuse_level(
            order.instrument, order.side, command.price, command.quantity, order
        )

    # -- instruments ----------------------------------------------------------------------------

    def define(self, command: Command) -> None:
        """Set a parameter of an instrument; the first one creates it, closed."""
        reason = self.refuse_define(command)
        if reason:
            self.answer(command, Kind.REJECTED, command.value, reason)
            return
        instrument = self.instruments.setdefault(
            command.instrument, Instrument(InstrumentState.CLOSED)
        )
        match command.parameter:
            case Parameter.PRICE_SCALE:
                instrument.price_scale = command.value
            case Parameter.QUANTITY_SCALE:
                instrument.quantity_scale = command.value
        self.answer(command, Kind.INSTRUMENT, command.value)

    def refuse_define(self, command: Command) -> Reason:
        if command.account != OPERATOR_ACCOUNT:
            return Reason.NOT_PERMITTED
        if not 1 <= command.instrument <= self.instruments_limit:
            return Reason.UNKNOWN_INSTRUMENT
        if command.parameter not in (Parameter.PRICE_SCALE, Parameter.QUANTITY_SCALE):
            return Reason.INVALID_PARAMETER
        if not 0 <= command.value <= SCALE_MAX:
            return Reason.INVALID_PARAMETER
        return Reason.NONE

    def set_state(self, command: Command) -> None:
        """Open, halt, resume or close. Orders stay."""
        reason = self.refuse_state(command)
        if reason:
            self.answer(command, Kind.REJECTED, command.value, reason)
            return
        instrument = self.instruments[command.instrument]
        instrument.state = TRANSITIONS[Action(command.parameter), instrument.state]
        self.answer(command, Kind.STATE, instrument.state)

    def refuse_state(self, command: Command) -> Reason:
        instrument = self.instrument(command.instrument)
        if command.account != OPERATOR_ACCOUNT:
            return Reason.NOT_PERMITTED
        if instrument.state == InstrumentState.UNDEFINED:
            return Reason.UNKNOWN_INSTRUMENT
        if command.parameter not in list(Action):
            return Reason.INVALID_PARAMETER
        if (Action(command.parameter), instrument.state) not in TRANSITIONS:
            return Reason.INVALID_TRANSITION
        return Reason.NONE

    # -- reports --------------------------------------------------------------------------------

    def reject(self, command: Command, reason: Reason, order: Order | None = None) -> None:
        """What was sent of an enter, reduce or replace stands as sent; if the order was found,
        reference, instrument and side are its own."""
        sent = command.type in (CommandType.ENTER, CommandType.REDUCE, CommandType.REPLACE)
        price, quantity = (command.price, command.quantity) if sent else (0, 0)
        side = command.side if command.type == CommandType.ENTER else None
        self.report(
            command, Kind.REJECTED, order, command.order_id, price, quantity, reason, side=side
        )

    def report_canceled(self, command: Command, order: Order, reason: Reason) -> None:
        self.report(
            command, Kind.CANCELED, order, order.order_id, order.price, order.leaves, reason
        )

    def answer(
        self, command: Command, kind: Kind, value: int, reason: Reason = Reason.NONE
    ) -> None:
        """The one report of a define or state command: its value stands as the price."""
        self.report(command, kind, None, command.parameter, value, 0, reason)

    def report(
        self,
        command: Command,
        kind: Kind,
        order: Order | None,
        contra: int,
        price: int,
        quantity: int,
        reason: Reason = Reason.NONE,
        flags: int = 0,
        side: int | None = None,
    ) -> None:
        """Append an OUTPUT row about `order`, or about none. `side` is the order's by default."""
        self.report_sequence += 1
        if side is None:
            side = order.side if order else 0
        row = {
            "report_sequence": self.report_sequence,
            "reference": order.reference if order else 0,
            "contra": contra,
            "price": price,
            "quantity": quantity,
            "instrument": order.instrument if order else command.instrument,
            "kind": kind,
            "side": side,
            "reason": reason,
            "flags": flags,
            "checksum": order.login if order else 0,  # until the report log's append
            "resting_account": order.account if order else command.account,
            "aggressor_account": command.account,
            "command": command.command_sequence & 0xFFFFFFFF,
        }
        self.made.append(tuple(row[name] for name in OUTPUT_LAYOUT.offsets()))

    # -- state ----------------------------------------------------------------------------------

    def instrument(self, number: int) -> Instrument:
        return self.instruments.get(number, Instrument())

    def side(self, instrument: int, side: int) -> BookSide:
        return self.sides.setdefault((instrument, side), BookSide(side))

    def level_count(self) -> int:
        return sum(len(book.levels) for book in self.sides.values())

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """The state, in the order that digests want: live orders, digest.ORDER[n], and defined
        instruments, digest.INSTRUMENT[m]."""
        orders = [
            (number, side, price, o.order_id, o.account, o.leaves, o.reference, o.group, o.login)
            for (number, side), book in sorted(self.sides.items())
            for price in book.prices()
            for o in book.levels[price].values()
        ]
        instruments = [
            (number, i.state, i.price_scale, i.quantity_scale, i.traded, i.last_price)
            for number, i in sorted(self.instruments.items())
        ]
        return np.array(orders, digest.ORDER), np.array(instruments, digest.INSTRUMENT)

    def check(self) -> None:
        """Raise AssertionError if the state is not one that a book can be in."""
        resting = 0
        for (number, side), book in self.sides.items():
            assert all(book.levels.values()), "no level is empty"
            for price, queue in book.levels.items():
                assert book.total(price) <= LEVEL_QUANTITY_MAX, "a level's total fits"
                for reference, order in queue.items():
                    place = order.reference, order.instrument, order.side, order.price
                    assert place == (reference, number, side, price), "an order is in its place"
                    assert order.leaves > 0, "a resting order has something left"
                    assert self.live[order.account, order.order_id] is order, "and is in the index"
                    resting += 1
            best = book.best()
            assert best is None or not self.crosses(number, side, best), "a book is never crossed"
        assert resting == len(self.live) <= self.orders_limit, "and nothing else is in the index"
        assert self.level_count() <= self.levels_limit, "no more levels than there may be"
        assert all(1 <= number <= self.instruments_limit for number in self.instruments)
