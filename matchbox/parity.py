"""How often our book executes the very order that the exchange executed. Plain Python.

A LOBSTER file is replayed event by event. At each recorded execution we look, before anything is
sent, which order an aggressor of that price and quantity would hit here. It agrees if that is the
recorded order, whole, at the recorded price. If it does, the aggressor is sent; if not, the
recorded order is made smaller by what was executed, so that our book stays the exchange's and one
difference cannot cause another.

With the exchange's own record of the best prices (LOBSTER's order book file, level 1) it is also
counted in how many states of the top of the book both agree: the states that differ from the one
before, in order, as the longest common parts of both sequences. Ours are built from the reports
alone, as a subscriber would.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from difflib import SequenceMatcher
from heapq import heappop, heappush

import numpy as np

from matchbox.constants import CommandType, Reason, ReportFlag
from matchbox.decode import lobster
from matchbox.decode.columns import Table, integers, without_blank_end
from matchbox.decode.contents import Progress, load
from matchbox.decode.lobster import Event, Rows
from matchbox.decode.lobster_commands import INSTRUMENT, UNTOLD, Session, convert
from matchbox.embedded import Engine, Front
from matchbox.ladder import Change, Ladder, Top
from matchbox.schema import RECORD

ORDERBOOK_FIELDS = ("ask price", "ask size", "bid price", "bid size")
LOOK_BEYOND = 200  # states of the exchange looked at beyond as many as ours
PROGRESS_EXECUTIONS = 64


@dataclass(frozen=True)
class Miss:
    """A recorded execution of which our book would have made another."""

    line: int
    time_ns: int
    side: str  # of the resting order
    order_id: int
    price: int
    quantity: int
    why: str
    instead: int | None  # id of the order that stands first here


@dataclass(frozen=True)
class Score:
    """`hits` of `executions` agree; `top_hits` of `top_states` too, if they were compared."""

    seed: str
    rows: int
    commands: int
    seeded: int  # orders from before the file that were entered
    executions: int
    hits: int
    top_states: int | None = None
    top_hits: int | None = None
    misses: list[Miss] = field(default_factory=list)

    @property
    def text(self) -> str:
        """One line for people."""
        line = f"{self.hits:,} of {self.executions:,} executions hit the recorded order"
        if self.executions:
            line += f" ({100 * self.hits / self.executions:.2f} %)"
        if self.top_states is not None:
            line += f"; top of book agrees in {self.top_hits:,} of {self.top_states:,} states"
        return line

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def score(
    path: str | os.PathLike[str],
    seed: str = "all",
    orderbook: str | os.PathLike[str] | None = None,
    *,
    date: str | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Score:
    """Replay a LOBSTER message file and compare.

    Args:
        path: the message file.
        seed: which older orders to enter; see decode/lobster_commands.py.
        orderbook: the exchange's level-1 order book file of the same day and stock.
        date: day of the file; None: from its name.
        engine: a fresh one; None: one of our own.
        progress: called with (rows done, rows in all).
    Raises:
        BadInput: a file is missing or wrong, or there is no such seed.
    """
    rows = lobster.read(path, date)
    session = convert(rows, seed)
    expected_tops = None if orderbook is None else tops_in(orderbook)
    replay = Replay(rows, session, engine or Engine())
    replay.run(progress)
    executions = int((rows.type == Event.EXECUTE).sum())
    top_states = top_hits = None
    if expected_tops is not None:
        tops = replay.tops()
        top_states, top_hits = len(tops), in_common(tops, expected_tops)
    return Score(
        seed=seed,
        rows=rows.type.size,
        commands=session.records.size,
        seeded=int(session.ahead.sum()),
        executions=executions,
        hits=executions - len(replay.misses),
        top_states=top_states,
        top_hits=top_hits,
        misses=replay.misses,
    )


class Replay:
    """One session through one engine, stopping before each recorded execution."""

    def __init__(self, rows: Rows, session: Session, engine: Engine) -> None:
        self.rows, self.session, self.engine = rows, session, engine
        self.records = session.records.copy()
        self.misses: list[Miss] = []
        self.reports: list[np.ndarray] = []

    def run(self, progress: Progress | None = None) -> None:
        of_rows = self.session.rows
        about = ~self.session.ahead
        about[about] = self.rows.type[of_rows[about]] == Event.EXECUTE
        done = 0
        for number, at in enumerate(np.flatnonzero(about).tolist()):
            self.submit(self.records[done:at])
            self.execute(at)
            done = at + 1
            if progress and number % PROGRESS_EXECUTIONS == 0:
                progress(int(of_rows[at]), self.rows.type.size)
        self.submit(self.records[done:])
        if progress:
            progress(self.rows.type.size, self.rows.type.size)

    def submit(self, records: np.ndarray) -> np.ndarray:
        reports = self.engine.submit(records)
        self.reports.append(reports)
        return reports

    def execute(self, at: int) -> None:
        """Send the aggressor of a recorded execution if it hits, else what it did to the order."""
        row = int(self.session.rows[at])
        order_id = int(self.rows.order_id[row])
        price, quantity = int(self.rows.price[row]), int(self.rows.quantity[row])
        side = "buy" if self.rows.direction[row] == 1 else "sell"
        front = self.engine.front(INSTRUMENT, side)
        why = difference(front, order_id, price, quantity)
        if why is None:
            self.submit(self.records[at : at + 1])
            return
        reports = self.submit(forced(self.records[at], order_id, int(self.session.leaves[row])))
        if reports["reason"][0] == Reason.UNKNOWN_ORDER:
            why = "order unknown"
        instead = None if front is None else front.order_id
        time_ns = int(self.rows.time_ns[row])
        self.misses.append(Miss(row + 1, time_ns, side, order_id, price, quantity, why, instead))

    def tops(self) -> list[Top]:
        """The states of the top of our book, after each row of the file that changed it.

        An order that was entered ahead of its row counts from that row on, as in the file.
        """
        ladder, tops = Ladder(), list[Top]()
        waiting: list[tuple[int, int]] = []  # heap of rows and the references they will reveal

        def note() -> None:
            if not tops or tops[-1] != ladder.top():
                tops.append(ladder.top())

        rows, ahead = self.session.rows.tolist(), self.session.ahead.tolist()
        for row, early, changes in zip(rows, ahead, by_command(self.reports), strict=True):
            if early and row != UNTOLD and len(changes) == 1:
                ladder.hide(changes[0])
                heappush(waiting, (row, changes[0].reference))
                continue
            while not early and waiting and waiting[0][0] < row:
                ladder.reveal(heappop(waiting)[1])
                note()
            for change in changes:
                ladder.apply(change)
            if not early:
                note()
        return tops


def by_command(parts: list[np.ndarray]) -> Iterator[list[Change]]:
    """The reports of each command. parts: REPORT arrays, of whole commands."""
    changes: list[Change] = []
    for reports in parts:
        for values in zip(*(reports[name].tolist() for name in Change._fields), strict=True):
            changes.append(Change(*values))
            if changes[-1].flags & ReportFlag.LAST:
                yield changes
                changes = []


def difference(front: Front | None, order_id: int, price: int, quantity: int) -> str | None:
    """Why an aggressor would not hit exactly this order, whole, at this price; None: it would."""
    if front is None:
        return "nothing there"
    if front.price != price:
        return "another price first"
    if front.order_id != order_id:
        return "another order first"
    return "too little left" if front.leaves_quantity < quantity else None


def forced(aggressor: np.void, order_id: int, leaves: int) -> np.ndarray:
    """RECORD[1]: make the recorded order as small as the execution left it."""
    record = np.zeros(1, RECORD)
    record["type"], record["instrument"] = CommandType.REDUCE, INSTRUMENT
    record["time_ns"] = aggressor["time_ns"]
    record["order_id"], record["quantity"] = order_id, leaves
    return record


def tops_in(path: str | os.PathLike[str]) -> list[Top]:
    """The states of the top of book in a LOBSTER level-1 file. Raises BadInput."""
    name = os.fspath(path)
    data = without_blank_end(load(path))
    table = Table(data, len(ORDERBOOK_FIELDS), name, 1)
    columns = [integers(table, column) for column in range(len(ORDERBOOK_FIELDS))]
    for label, column in zip(ORDERBOOK_FIELDS, columns, strict=True):
        table.require(label, column.valid, "an integer")
    table.verify()
    values = np.stack([column.values for column in columns], axis=1)
    changed = np.append(True, (values[1:] != values[:-1]).any(axis=1))
    return [Top(*row) for row in values[changed].tolist()]


def in_common(tops: list[Top], expected: list[Top]) -> int:
    """How many of `tops` line up with a state of `expected`, both in order."""
    matcher = SequenceMatcher(None, tops, expected[: len(tops) + LOOK_BEYOND], autojunk=False)
    return sum(block.size for block in matcher.get_matching_blocks())
