"""A made-up market as LOBSTER would have recorded it. Plain Python.

    write_lobster("2026-01-05.csv", lobster_rows(10_000, seed=7))

A session of generate.py is executed by the readable book, and its reports become rows. So a book
that keeps price-time order executes, row by row, the very orders that are recorded.
"""

import os

import numpy as np

from matchbox.book.reference import ReferenceBook
from matchbox.constants import CommandFlag, CommandType, Kind, Reason, ReportFlag, Side, Tif
from matchbox.decode.lobster import DAY_NS, NS_PER_S, Event, Rows
from matchbox.errors import Unavailable
from matchbox.generate import session

RECORDED_TOGETHER = 1024  # commands
TYPES = (np.uint64, np.uint8, np.int64, np.int64, np.int64, np.int8)  # of Rows


def lobster_rows(count: int, seed: int = 1, before: int = 0) -> Rows:
    """What LOBSTER would have recorded of a session of one instrument.

    Ids are in order of arrival. A replaced order is deleted and announced again with a new one.

    Args:
        count: rows.
        seed: any whole number.
        before: rows that came before the first one: orders that they left are not announced.
    """
    commands = session(2 * (before + count), seed)
    commands["flags"][commands["type"] == CommandType.REPLACE] = CommandFlag.REQUEUE
    commands["command_sequence"] = 1 + np.arange(commands.size)
    book, recorder = ReferenceBook(), Recorder()
    for first in range(0, commands.size, RECORDED_TOGETHER):
        part = commands[first : first + RECORDED_TOGETHER]
        recorder.record(book.execute(part), part["time_ns"], part["kind_tif"] != Tif.IOC << 4)
        if len(recorder.rows) >= before + count:
            break
    columns = np.array(recorder.rows[before : before + count], np.int64).reshape(-1, 6).T
    return Rows(*(column.astype(type) for column, type in zip(columns, TYPES, strict=True)))


class Recorder:
    """Turns reports into LOBSTER rows: time_ns, type, order id, quantity, price, direction."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, ...]] = []
        self._orders: dict[int, list[int]] = {}  # by reference: id, leaves, price, direction

    def record(self, outputs: np.ndarray, times: np.ndarray, may_rest: np.ndarray) -> None:
        """Take the reports of some commands, OUTPUT[m], and per command its time and whether its
        order may rest."""
        names = ("report_sequence", "reference", "contra", "price", "quantity", "side")
        columns = [outputs[name].tolist() for name in (*names, "kind", "reason", "flags")]
        command, entered = 0, 0
        for report in zip(*columns, strict=True):
            sequence, reference, contra, price, quantity, side, kind, reason, flags = report
            time_ns = int(times[command])
            if kind in (Kind.ACCEPTED, Kind.REPLACED):
                if kind == Kind.REPLACED:
                    self._take(time_ns, Event.DELETE, reference, self._orders[reference][1])
                self._orders[reference] = [sequence, quantity, price, 1 if side == Side.BUY else -1]
                entered = reference
            elif kind == Kind.EXECUTED:
                self._take(time_ns, Event.EXECUTE, reference, quantity)
                self._orders[contra][1] -= quantity
            elif kind == Kind.RESTATED:
                taken = self._orders[reference][1] - quantity
                self._take(time_ns, Event.REDUCE, reference, taken)
            elif kind == Kind.CANCELED and reason == Reason.USER:
                self._take(time_ns, Event.DELETE, reference, quantity)
            if flags & ReportFlag.LAST:
                if entered and may_rest[command] and self._orders[entered][1]:
                    order_id, leaves, price, direction = self._orders[entered]
                    self.rows.append((time_ns, Event.SUBMIT, order_id, leaves, price, direction))
                command, entered = command + 1, 0

    def _take(self, time_ns: int, event: Event, reference: int, quantity: int) -> None:
        order = self._orders[reference]
        self.rows.append((time_ns, event, order[0], quantity, *order[2:]))
        order[1] -= quantity


def write_lobster(path: str | os.PathLike[str], rows: Rows) -> None:
    """Write a LOBSTER message file. Its times are since midnight: read it with the day of `rows`.

    Raises:
        Unavailable: the folder or the disk does not take it.
    """
    midnight = int(rows.time_ns[0]) // DAY_NS * DAY_NS if rows.time_ns.size else 0
    times = [divmod(time - midnight, NS_PER_S) for time in rows.time_ns.tolist()]
    columns = [column.tolist() for column in rows[1:]]
    try:
        with open(path, "w", encoding="ascii", newline="\n") as file:
            for (seconds, ns), *values in zip(times, *columns, strict=True):
                file.write(f"{seconds}.{ns:09},{','.join(map(str, values))}\n")
    except OSError as error:
        raise Unavailable(f"{os.fspath(path)}: {error.strerror}") from None
