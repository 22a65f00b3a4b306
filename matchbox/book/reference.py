"""The specification: what the book does with each command, in plain words.

The compiled book must give the same report bytes and the same digest as this one; where they
differ, this file is right until a rule is changed here first. It is written to be read, not to be
fast.

A side is a SortedDict from price to queue; a queue is an insertion-ordered dict of orders, oldest
first. Checks come before any change, in the order in which they stand here; the first that fails
is the reason.
"""

from dataclasses import dataclass

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
from matchbox.schema import OUTPUT, OUTPUT_LAYOUT

FLAGS = list(OUTPUT_LAYOUT.offsets()).index("flags")
TRANSITIONS = {
    (Action.OPEN, InstrumentState.CLOSED): InstrumentState.OPEN,
    (Action.HALT, InstrumentState.OPEN): InstrumentState.HALTED,
    (Action.RESUME, InstrumentState.HALTED): InstrumentState.OPEN,
    (Action.CLOSE, InstrumentState.OPEN): InstrumentState.CLOSED,
    (Action.CLOSE, InstrumentState.HALTED): InstrumentState.CLOSED,
}


@dataclass
class Order:
    """A live order. `reference` is its public name for life."""

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

    def best(self) -> int | None:
        """The highest bid or the lowest ask."""
        if not self.levels:
            return None
        return self.levels.peekitem(-1 if self.side == Side.BUY else 0)[0]

    def prices(self) -> list[int]:
        """Best first."""
        return list(reversed(self.levels)) if self.side == Side.BUY else list(self.levels)

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
        """Execute RECORD[n], which carry their command_sequence. Returns their reports,
        OUTPUT[m]."""
        self.made = []
        for record in records:
            command = {name: int(record[name]) for name in record.dtype.names}
            self.apply(command)
            self.made[-1] = self.marked_last(self.made[-1])
        return np.array(self.made, OUTPUT) if self.made else np.zeros(0, OUTPUT)

    def apply(self, command: dict[str, int]) -> None:
        match command["type"]:
            case CommandType.ENTER:
                self.enter(command)
            case CommandType.CANCEL | CommandType.REDUCE | CommandType.REPLACE:
                self.change(command)
            case CommandType.DEFINE:
                self.define(command)
            case CommandType.STATE:
                self.set_state(command)
            case _:
                self.reject(command, Reason.NOT_SUPPORTED, side=0, price=0, quantity=0)

    # -- enter ----------------------------------------------------------------------------------

    def enter(self, command: dict[str, int]) -> None:
        reason = self.refuse_enter(command)
        if reason:
            self.reject(command, reason, command["side"], command["price"], command["quantity"])
            return
        order = Order(
            self.report_sequence + 1,
            command["instrument"],
            command["side"],
            command["price"],
            command["quantity"],
            command["order_id"],
            command["account"],
            command["group"],
            command["login"],
        )
        self.report(command, Kind.ACCEPTED, order, order.order_id, order.price, order.leaves)
        self.trade(command, order)
        if order.leaves and command["kind_tif"] >> 4 == Tif.IOC:
            self.report(
                command, Kind.CANCELED, order, order.order_id, order.price, order.leaves, Reason.IOC
            )
        elif order.leaves:
            self.side(order.instrument, order.side).add(order)
            self.live[order.account, order.order_id] = order

    def refuse_enter(self, command: dict[str, int]) -> Reason:
        instrument = self.instrument(command["instrument"])
        kind, tif = command["kind_tif"] & 15, command["kind_tif"] >> 4
        if instrument.state == InstrumentState.UNDEFINED:
            return Reason.UNKNOWN_INSTRUMENT
        if instrument.state != InstrumentState.OPEN:
            return Reason.INSTRUMENT_NOT_OPEN
        if command["side"] not in (Side.BUY, Side.SELL):
            return Reason.INVALID_SIDE
        if kind != OrderKind.LIMIT:
            return Reason.INVALID_KIND
        if tif not in (Tif.GTC, Tif.IOC):
            return Reason.INVALID_TIF
        if command["flags"] != 0:
            return Reason.INVALID_FLAGS
        if not 1 <= command["quantity"] <= QUANTITY_MAX:
            return Reason.INVALID_QUANTITY
        if (command["account"], command["order_id"]) in self.live:
            return Reason.DUPLICATE_ORDER_ID
        # An order that trades has room for its remainder: the trade filled an order and emptied a
        # level, and no order of its own side can stand at a price where it meets the other side.
        if tif == Tif.IOC or self.crosses(command["instrument"], command["side"], command["price"]):
            return Reason.NONE
        if len(self.live) == self.orders_limit:
            return Reason.ORDERS_FULL
        return self.refuse_level(
            command["instrument"], command["side"], command["price"], command["quantity"], None
        )

    def refuse_level(
        self, number: int, side: int, price: int, quantity: int, leaving: Order | None
    ) -> Reason:
        """Whether a level can take `quantity`, once the order `leaving` has left its own."""
        levels = self.side(number, side).levels
        count = self.level_count()
        total = self.side(number, side).total(price)
        if leaving:
            count -= len(levels[leaving.price]) == 1
            total -= leaving.leaves if leaving.price == price else 0
        if price not in levels and count == self.levels_limit:
            return Reason.LEVELS_FULL
        if total + quantity > LEVEL_QUANTITY_MAX:
            return Reason.LEVEL_OVERFLOW
        return Reason.NONE

    def crosses(self, number: int, side: int, price: int) -> bool:
        """Would an order meet the other side at this price?"""
        best = self.side(number, 1 - side).best()
        if best is None:
            return False
        return best <= price if side == Side.BUY else best >= price

    def trade(self, command: dict[str, int], aggressor: Order) -> None:
        """Fill from the other side, best price first, oldest first, at the resting order's
        price."""
        other = self.side(aggressor.instrument, 1 - aggressor.side)
        while aggressor.leaves and self.crosses(
            aggressor.instrument, aggressor.side, aggressor.price
        ):
            resting = next(iter(other.levels[other.best()].values()))
            quantity = min(resting.leaves, aggressor.leaves)
            self.append(
                command,
                Kind.EXECUTED,
                resting.reference,
                aggressor.reference,
                resting.price,
                quantity,
                aggressor.instrument,
                aggressor.side,
                Reason.NONE,
                0,
                resting,
            )
            resting.leaves -= quantity
            aggressor.leaves -= quantity
            instrument = self.instruments[aggressor.instrument]
            instrument.last_price, instrument.traded = resting.price, True
            if not resting.leaves:
                other.remove(resting)
                del self.live[resting.account, resting.order_id]

    # -- cancel, reduce, replace ----------------------------------------------------------------

    def change(self, command: dict[str, int]) -> None:
        order = self.live.get((command["account"], command["order_id"]))
        price, quantity = command["price"], command["quantity"]
        if order is None or command["instrument"] not in (0, order.instrument):
            if command["type"] == CommandType.CANCEL:
                price = quantity = 0
            self.reject(command, Reason.UNKNOWN_ORDER, 0, price, quantity)
            return
        match command["type"]:
            case CommandType.CANCEL:
                self.cancel(command, order)
            case CommandType.REDUCE:
                self.reduce(command, order)
            case CommandType.REPLACE:
                self.replace(command, order)

    def cancel(self, command: dict[str, int], order: Order) -> None:
        self.report(
            command, Kind.CANCELED, order, order.order_id, order.price, order.leaves, Reason.USER
        )
        self.side(order.instrument, order.side).remove(order)
        del self.live[order.account, order.order_id]

    def reduce(self, command: dict[str, int], order: Order) -> None:
        """`quantity` is the new total leaves. The order keeps its place; to 0 is a cancel."""
        quantity = command["quantity"]
        reason = Reason.NONE
        if command["flags"] != 0:
            reason = Reason.INVALID_FLAGS
        elif not 0 <= quantity <= QUANTITY_MAX:
            reason = Reason.INVALID_QUANTITY
        elif quantity >= order.leaves:
            reason = Reason.NOT_REDUCED
        if reason:
            self.reject(command, reason, order.side, command["price"], quantity, order)
        elif quantity == 0:
            self.cancel(command, order)
        else:
            order.leaves = quantity
            self.report(
                command, Kind.RESTATED, order, order.order_id, order.price, quantity, Reason.REDUCE
            )

    def replace(self, command: dict[str, int], order: Order) -> None:
        """No more at the same price keeps its place; all else goes to the back, and may trade on
        the way."""
        price, quantity = command["price"], command["quantity"]
        keeps = price == order.price and quantity <= order.leaves and not command["flags"]
        reason = self.refuse_replace(command, order, keeps)
        if reason:
            self.reject(command, reason, order.side, price, quantity, order)
            return
        flags = 0 if keeps else ReportFlag.REQUEUED
        self.report(
            command, Kind.REPLACED, order, command["new_order_id"], price, quantity, flags=flags
        )
        del self.live[order.account, order.order_id]
        if not keeps:
            self.side(order.instrument, order.side).remove(order)
        order.order_id, order.price, order.leaves = command["new_order_id"], price, quantity
        if not keeps:
            self.trade(command, order)
            if not order.leaves:
                return
            self.side(order.instrument, order.side).add(order)
        self.live[order.account, order.order_id] = order

    def refuse_replace(self, command: dict[str, int], order: Order, keeps: bool) -> Reason:
        new_order_id = command["new_order_id"]
        if self.instruments[order.instrument].state != InstrumentState.OPEN:
            return Reason.INSTRUMENT_NOT_OPEN
        if command["flags"] & ~CommandFlag.REQUEUE:
            return Reason.INVALID_FLAGS
        if not 1 <= command["quantity"] <= QUANTITY_MAX:
            return Reason.INVALID_QUANTITY
        if new_order_id != order.order_id and (order.account, new_order_id) in self.live:
            return Reason.DUPLICATE_ORDER_ID
        if keeps or self.crosses(order.instrument, order.side, command["price"]):
            return Reason.NONE
        return self.refuse_level(
            order.instrument, order.side, command["price"], command["quantity"], order
        )

    # -- instruments ----------------------------------------------------------------------------

    def define(self, command: dict[str, int]) -> None:
        """Set a parameter of an instrument; the first one creates it, closed."""
        number, parameter, value = command["instrument"], command["parameter"], command["value"]
        if command["account"] != OPERATOR_ACCOUNT:
            reason = Reason.NOT_PERMITTED
        elif not 1 <= number <= self.instruments_limit:
            reason = Reason.UNKNOWN_INSTRUMENT
        elif parameter not in list(Parameter) or not 0 <= value <= SCALE_MAX:
            reason = Reason.INVALID_PARAMETER
        else:
            reason = Reason.NONE
            instrument = self.instruments.setdefault(number, Instrument(InstrumentState.CLOSED))
            if parameter == Parameter.PRICE_SCALE:
                instrument.price_scale = value
            else:
                instrument.quantity_scale = value
        self.answer(command, Kind.INSTRUMENT, reason, value)

    def set_state(self, command: dict[str, int]) -> None:
        """Open, halt, resume or close. Orders stay."""
        instrument, action = self.instrument(command["instrument"]), command["parameter"]
        value = command["value"]
        if command["account"] != OPERATOR_ACCOUNT:
            reason = Reason.NOT_PERMITTED
        elif instrument.state == InstrumentState.UNDEFINED:
            reason = Reason.UNKNOWN_INSTRUMENT
        elif action not in list(Action):
            reason = Reason.INVALID_PARAMETER
        elif (Action(action), instrument.state) not in TRANSITIONS:
            reason = Reason.INVALID_TRANSITION
        else:
            reason = Reason.NONE
            instrument.state = TRANSITIONS[Action(action), instrument.state]
            value = instrument.state
        self.answer(command, Kind.STATE, reason, value)

    def answer(self, command: dict[str, int], kind: Kind, reason: Reason, value: int) -> None:
        """The one report of a `define` or `state` command."""
        if reason:
            kind = Kind.REJECTED
        contra, number = command["parameter"], command["instrument"]
        self.append(command, kind, 0, contra, value, 0, number, 0, reason, 0, None)

    # -- reports --------------------------------------------------------------------------------

    def report(
        self,
        command: dict[str, int],
        kind: Kind,
        order: Order,
        contra: int,
        price: int,
        quantity: int,
        reason: Reason = Reason.NONE,
        flags: int = 0,
    ) -> None:
        self.append(
            command,
            kind,
            order.reference,
            contra,
            price,
            quantity,
            order.instrument,
            order.side,
            reason,
            flags,
            order,
        )

    def reject(
        self,
        command: dict[str, int],
        reason: Reason,
        side: int,
        price: int,
        quantity: int,
        order: Order | None = None,
    ) -> None:
        """Price and quantity as sent; the order's reference, instrument and side if it was
        found."""
        reference = order.reference if order else 0
        instrument = order.instrument if order else command["instrument"]
        contra = command["order_id"]
        self.append(
            command,
            Kind.REJECTED,
            reference,
            contra,
            price,
            quantity,
            instrument,
            side,
            reason,
            0,
            order,
        )

    def append(
        self,
        command: dict[str, int],
        kind: Kind,
        reference: int,
        contra: int,
        price: int,
        quantity: int,
        instrument: int,
        side: int,
        reason: Reason,
        flags: int,
        order: Order | None,
    ) -> None:
        self.report_sequence += 1
        owner = order.account if order else command["account"]
        self.made.append(
            (
                self.report_sequence,
                reference,
                contra,
                price,
                quantity,
                instrument,
                kind,
                side,
                reason,
                flags,
                order.login if order else 0,
                owner,
                command["account"],
                command["command_sequence"] & 0xFFFFFFFF,
            )
        )

    @staticmethod
    def marked_last(row: tuple[int, ...]) -> tuple[int, ...]:
        return (*row[:FLAGS], row[FLAGS] | ReportFlag.LAST, *row[FLAGS + 1 :])

    # -- state ----------------------------------------------------------------------------------

    def instrument(self, number: int) -> Instrument:
        return self.instruments.get(number, Instrument())

    def side(self, number: int, side: int) -> BookSide:
        return self.sides.setdefault((number, side), BookSide(side))

    def level_count(self) -> int:
        return sum(len(side.levels) for side in self.sides.values())

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Live orders, digest.ORDER[n], and defined instruments, digest.INSTRUMENT[m], in digest
        order."""
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
                total = sum(order.leaves for order in queue.values())
                assert total <= LEVEL_QUANTITY_MAX, "a level's total fits"
                for order in queue.values():
                    assert order.leaves > 0, "a resting order has something left"
                    assert (order.instrument, order.side, order.price) == (number, side, price)
                    assert self.live[order.account, order.order_id] is order, "and is in the index"
                    resting += 1
            best = book.best()
            assert best is None or not self.crosses(number, side, best), "a book is never crossed"
        assert resting == len(self.live) <= self.orders_limit, "and nothing else is in the index"
        assert self.level_count() <= self.levels_limit
