"""The engine in process: no threads, sockets or files. For notebooks and tests. Plain Python.

    engine = matchbox.Engine(orders=1 << 20)
    engine.enter(order_id=1, side="sell", price=100, quantity=10)
    reports = engine.enter(order_id=2, side="buy", price=100, quantity=4, tif="ioc")

`ReferenceEngine` is the same front with the readable book behind it: same reports, same digests.
"""

from enum import IntEnum
from typing import NamedTuple, Protocol

import numpy as np

from matchbox.book import digest
from matchbox.book.reference import ReferenceBook
from matchbox.constants import (
    INSTRUMENTS_DEFAULT,
    INSTRUMENTS_MAX,
    LEVELS_DEFAULT,
    LEVELS_MAX,
    ORDERS_DEFAULT,
    ORDERS_MAX,
    Action,
    CommandFlag,
    CommandType,
    OrderKind,
    Parameter,
    Side,
    Tif,
)
from matchbox.errors import BadInput
from matchbox.schema import COMMAND, OUTPUT, RECORD, RECORD_LAYOUT, joined, reports_of

COMMAND_AT = RECORD_LAYOUT.offsets()["type"]
INSTRUMENT_MAX = int(np.iinfo(COMMAND["instrument"]).max)

Queue = list[tuple[int, int]]
Ladder = list[tuple[int, Queue]]


class BookView(NamedTuple):
    """One instrument's book: best price first, each with its orders (order_id, leaves_quantity),
    oldest first."""

    bids: Ladder
    asks: Ladder


class Front(NamedTuple):
    """The order that would be hit next on a side."""

    price: int
    order_id: int
    leaves_quantity: int
    reference: int


class AnyBook(Protocol):
    """What an engine needs of a book."""

    @property
    def report_sequence(self) -> int: ...

    def execute(self, records: np.ndarray) -> np.ndarray: ...

    def rows(self) -> tuple[np.ndarray, np.ndarray]: ...

    def check(self) -> None: ...


class CompiledBook:
    """The compiled book behind the same four calls as the readable one."""

    def __init__(self, orders: int, levels: int, instruments: int) -> None:
        from matchbox.book import state  # compiled code is loaded when it is first needed

        self.state = state.allocate(orders, levels, instruments)
        self.outbox = state.outbox(orders)

    @property
    def report_sequence(self) -> int:
        from matchbox.book.state import REPORTS

        return int(self.state.counts[REPORTS])

    def execute(self, records: np.ndarray) -> np.ndarray:
        """Execute RECORD[n] with ascending command_sequence; returns OUTPUT[m]."""
        from matchbox.book.execute import execute

        words, u64 = records.view(np.uint64), np.uint64
        pieces, position, last = [], 0, records.size
        while position < last:
            sequence = u64(records["command_sequence"][position])
            reached, count = execute(
                self.state, words, u64(2**64 - 1), u64(position), u64(last), sequence, self.outbox
            )
            pieces.append(self.outbox[: int(count) * OUTPUT.itemsize // 8].view(OUTPUT).copy())
            position = int(reached)
        return np.concatenate(pieces) if pieces else np.zeros(0, OUTPUT)

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        from matchbox.book.rows import rows

        return rows(self.state)

    def check(self) -> None:
        from matchbox.book.check import check

        check(self.state)


def code(value: str | IntEnum, codes: type[IntEnum], field: str) -> int:
    """A code by its name, in any case, or by itself. Raises BadInput naming what it may be."""
    if isinstance(value, codes):
        return int(value)
    try:
        return int(codes[value.upper()])  # type: ignore[union-attr]
    except (KeyError, AttributeError):
        expected = ", ".join(repr(name.lower()) for name in codes.__members__)
        raise BadInput(f"{field} {value!r}: expected one of {expected}") from None


class EngineOf:
    """Commands in, reports out, in front of any book."""

    def __init__(self, book: AnyBook) -> None:
        self.engine_book = book
        self.command_sequence = 0
        self.time_ns = 0

    def submit(
        self, commands: np.ndarray, account: int = 0, time_ns: int | None = None
    ) -> np.ndarray:
        """Execute commands in order.

        Args:
            commands: COMMAND[n], or RECORD[n] as `files.read` gives them, whose accounts and times
                are kept.
            account: the account they act for.
            time_ns: their time; by default that of the command before.
        Returns:
            REPORT[m]: every command makes at least one.
        Raises:
            BadInput: another dtype, or a time before that of the last command.
        """
        commands = np.asarray(commands)
        if commands.dtype not in (COMMAND, RECORD) or commands.ndim != 1:
            raise BadInput(
                f"commands: {commands.ndim}-dimensional, {commands.dtype.itemsize} bytes an item: "
                "expected a one-dimensional array of matchbox.COMMAND or matchbox.RECORD "
                "(np.concatenate repacks them: use matchbox.joined)"
            )
        return reports_of(self.outputs(commands, account, time_ns))

    def outputs(self, commands: np.ndarray, account: int, time_ns: int | None) -> np.ndarray:
        """As `submit`, but OUTPUT[m]: reports with the accounts they concern and their command."""
        if commands.dtype == RECORD:
            records = commands.copy()
        else:
            records = np.zeros(commands.size, RECORD)
            raw = records.view(np.uint8).reshape(-1, RECORD.itemsize)
            raw[:, COMMAND_AT:] = (
                np.ascontiguousarray(commands).view(np.uint8).reshape(-1, COMMAND.itemsize)
            )
            records["account"] = whole(account, "account", 0, 2**32 - 1)
            records["time_ns"] = self.time_ns
            if time_ns is not None:
                records["time_ns"] = whole(time_ns, "time_ns", self.time_ns, 2**64 - 1)
        self.time_ns = max(self.time_ns, int(records["time_ns"].max(initial=0)))
        records["checksum"] = 0
        records["command_sequence"] = (
            self.command_sequence + 1 + np.arange(records.size, dtype=np.uint64)
        )
        self.command_sequence += records.size
        return self.engine_book.execute(records)

    def one(self, account: int, time_ns: int | None, **fields: int) -> np.ndarray:
        """Submit one command made of `fields`."""
        return self.submit(command_of(fields), account, time_ns)

    def enter(
        self,
        *,
        order_id: int,
        side: str | Side,
        price: int,
        quantity: int,
        tif: str | Tif = "gtc",
        instrument: int = 1,
        account: int = 0,
        group: int = 0,
        time_ns: int | None = None,
    ) -> np.ndarray:
        """A limit order: "buy" or "sell" `quantity` lots at `price` ticks, "gtc" or "ioc". Returns
        REPORT[m]."""
        kind_tif = OrderKind.LIMIT | code(tif, Tif, "tif") << 4
        return self.one(
            account,
            time_ns,
            type=CommandType.ENTER,
            side=code(side, Side, "side"),
            kind_tif=kind_tif,
            instrument=instrument,
            order_id=order_id,
            price=price,
            quantity=quantity,
            group=group,
        )

    def cancel(
        self, *, order_id: int, instrument: int = 0, account: int = 0, time_ns: int | None = None
    ) -> np.ndarray:
        """Take a live order out of the book. Returns REPORT[1]."""
        return self.one(
            account, time_ns, type=CommandType.CANCEL, instrument=instrument, order_id=order_id
        )

    def reduce(
        self,
        *,
        order_id: int,
        quantity: int,
        instrument: int = 0,
        account: int = 0,
        time_ns: int | None = None,
    ) -> np.ndarray:
        """Lower an order's leaves to `quantity`; it keeps its place. Returns REPORT[1]."""
        return self.one(
            account,
            time_ns,
            type=CommandType.REDUCE,
            instrument=instrument,
            order_id=order_id,
            quantity=quantity,
        )

    def replace(
        self,
        *,
        order_id: int,
        price: int,
        quantity: int,
        new_order_id: int | None = None,
        requeue: bool = False,
        instrument: int = 0,
        account: int = 0,
        time_ns: int | None = None,
    ) -> np.ndarray:
        """Change an order: `quantity` is its new leaves, `new_order_id` by default the old one.

        No more at the same price keeps its place unless `requeue`; all else goes to the back and
        may trade. Returns REPORT[m].
        """
        return self.one(
            account,
            time_ns,
            type=CommandType.REPLACE,
            flags=CommandFlag.REQUEUE if requeue else 0,
            instrument=instrument,
            order_id=order_id,
            price=price,
            quantity=quantity,
            new_order_id=order_id if new_order_id is None else new_order_id,
        )

    def define(
        self,
        *,
        instrument: int,
        account: int = 0,
        time_ns: int | None = None,
        **parameters: int,
    ) -> np.ndarray:
        """Set `price_scale` or `quantity_scale`, one command each; the first creates the
        instrument, closed. Returns REPORT[m], one for each."""
        commands = [
            command_of(
                {
                    "type": CommandType.DEFINE,
                    "instrument": instrument,
                    "parameter": code(name, Parameter, "parameter"),
                    "value": value,
                }
            )
            for name, value in parameters.items()
        ]
        if not commands:
            raise BadInput(
                "define: expected a parameter, as in define(instrument=2, price_scale=4)"
            )
        return self.submit(joined(*commands), account, time_ns)

    def set_state(
        self, *, instrument: int, state: str | Action, account: int = 0, time_ns: int | None = None
    ) -> np.ndarray:
        """ "open", "halt", "resume" or "close" an instrument. Returns REPORT[1]."""
        action = code(state, Action, "state")
        return self.one(
            account, time_ns, type=CommandType.STATE, instrument=instrument, parameter=action
        )

    def book(self, instrument: int = 1) -> BookView:
        """What rests in one instrument."""
        instrument = whole(instrument, "instrument", 0, INSTRUMENT_MAX)
        orders, _ = self.engine_book.rows()
        orders = orders[orders["instrument"] == instrument]
        sides: list[Ladder] = []
        for side in Side:
            ladder: Ladder = []
            for row in orders[orders["side"] == side]:
                price, order = int(row["price"]), (int(row["order_id"]), int(row["leaves"]))
                if ladder and ladder[-1][0] == price:
                    ladder[-1][1].append(order)
                else:
                    ladder.append((price, [order]))
            sides.append(ladder)
        return BookView(*sides)

    @property
    def report_sequence(self) -> int:
        """Of the last report made."""
        return self.engine_book.report_sequence

    @property
    def digest(self) -> str:
        """Names the whole state, queue order included: 32 hex digits."""
        return digest.digest(*self.engine_book.rows(), self.report_sequence)

    def book_digest(self, instrument: int) -> str:
        """Names what public reports tell of one instrument: 32 hex digits."""
        instrument = whole(instrument, "instrument", 0, INSTRUMENT_MAX)
        return digest.book_digest(self.engine_book.rows()[0], instrument)

    def check(self) -> None:
        """Verify every invariant of the book, slowly. Raises AssertionError."""
        self.engine_book.check()


class Engine(EngineOf):
    """The compiled book in process.

    Args:
        orders, levels: how many may be live, over all instruments.
        instruments: their numbers are 1 to this. Instrument 1 is defined and open.
    """

    def __init__(
        self,
        orders: int = ORDERS_DEFAULT,
        levels: int = LEVELS_DEFAULT,
        instruments: int = INSTRUMENTS_DEFAULT,
    ) -> None:
        self.compiled = CompiledBook(*limits(orders, levels, instruments))
        super().__init__(self.compiled)

    def front(self, instrument: int, side: str | Side) -> Front | None:
        """The order that would be hit next on a side, or None."""
        from matchbox.book.dump import front

        number = np.uint64(code(side, Side, "side"))
        last = self.compiled.state.instruments.size - 1
        instrument = whole(instrument, "instrument", 1, last)
        there, *values = front(self.compiled.state, np.uint64(instrument), number)
        return Front(*(int(value) for value in values)) if there else None


class ReferenceEngine(EngineOf):
    """The readable book in process: the same calls, the same answers, a thousand times slower."""

    def __init__(
        self,
        orders: int = ORDERS_DEFAULT,
        levels: int = LEVELS_DEFAULT,
        instruments: int = INSTRUMENTS_DEFAULT,
    ) -> None:
        super().__init__(ReferenceBook(*limits(orders, levels, instruments)))


def whole(value: int, field: str, low: int | None = None, high: int | None = None) -> int:
    """A whole number, in a range if one is given. Raises BadInput."""
    try:
        number = value.__index__()
    except AttributeError:
        raise BadInput(f"{field} {value!r}: expected a whole number") from None
    if low is not None and high is not None and not low <= number <= high:
        raise BadInput(f"{field} {value}: expected {low} to {high}")
    return number


def command_of(fields: dict[str, int]) -> np.ndarray:
    """COMMAND[1] of `fields`, the others 0. Raises BadInput for what a field cannot hold."""
    command = np.zeros(1, COMMAND)
    for name, value in fields.items():
        low, high = int(np.iinfo(COMMAND[name]).min), int(np.iinfo(COMMAND[name]).max)
        if name == "quantity":  # beyond the field is beyond QUANTITY_MAX: the book refuses it
            value = min(max(whole(value, name), low), high)
        command[name] = whole(value, name, low, high)
    return command


def limits(orders: int, levels: int, instruments: int) -> tuple[int, int, int]:
    """A book's limits, if it can have them. Raises BadInput."""
    return (
        whole(orders, "orders", 1, ORDERS_MAX),
        whole(levels, "levels", 1, LEVELS_MAX),
        whole(instruments, "instruments", 1, INSTRUMENTS_MAX),
    )
