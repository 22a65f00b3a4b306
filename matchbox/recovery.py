"""Recovery: the book as the log says it was, and the reports that a crash kept from leaving. Plain
Python.

Every command is executed again, from the first record; what that makes must equal the report log,
byte for byte, as far as the report log goes. Reports beyond its end were made by commands that
were logged and whose reports were not: nobody has seen them, and they are sent when the exchange
starts. (Snapshots, so that this need not begin at the first record, come later.)
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from matchbox.book import state
from matchbox.book.execute import execute
from matchbox.book.state import REPORTS, Book
from matchbox.constants import CommandType
from matchbox.errors import LogRefused
from matchbox.schema import OUTPUT, RECORD
from matchbox.wal.directory import LogDirectory, Run
from matchbox.wal.scan import first_difference

ENTRY_WORDS = OUTPUT.itemsize // 8
ALL_ONES = np.uint64(2**64 - 1)

Progress = Callable[[int, int], None]


@dataclass
class Recovered:
    """Where an exchange goes on.

    Attributes:
        book, outbox: as after the last command of the log.
        unsent: outbox entries, u64[n * 8] each, whose reports are in no report log.
        last_time_ns, last_login: the largest in the log.
    """

    book: Book
    outbox: np.ndarray
    unsent: list[np.ndarray] = field(default_factory=list)
    last_time_ns: int = 0
    last_login: int = 0

    @property
    def report_sequence(self) -> int:
        return int(self.book.counts[REPORTS])


class ReportCursor:
    """Walks the report log beside the replay."""

    def __init__(self, runs: Iterator[Run]) -> None:
        self.runs = runs
        self.run: Run | None = next(runs, None)
        self.slot = 1

    def compare(self, made: np.ndarray) -> int:
        """Hold outbox entries, u64[n * 8], against what is logged.

        Returns how many of them the report log has. Raises LogRefused at the first that differs.
        """
        count, done = made.size // ENTRY_WORDS, 0
        while done < count and self.run:
            here = min(count - done, 1 + self.run.count - self.slot)
            entries = made[done * ENTRY_WORDS :]
            same = first_difference(entries, self.run.words, np.uint64(self.slot), np.uint64(here))
            if same != here:
                sequence = int(entries[int(same) * ENTRY_WORDS])
                raise LogRefused(
                    f"{self.run.path}: report {sequence} is not what its command makes when it is "
                    "executed again: the log is of another version, or one of the two is damaged; "
                    "nothing was changed"
                )
            done += here
            self.slot += here
            if self.slot > self.run.count:
                self.run, self.slot = next(self.runs, None), 1
        return done


def recover(directory: LogDirectory, prefault: bool, progress: Progress | None = None) -> Recovered:
    """Replay a verified log. `progress` is told commands done and in all. Raises LogRefused."""
    limits = directory.limits
    recovered = Recovered(
        state.allocate(limits.orders, limits.levels, limits.instruments, prefault),
        state.outbox(limits.orders),
    )
    logged = ReportCursor(iter(directory.reports))
    for run in directory.commands:
        replay(recovered, run, logged)
        if progress:
            progress(run.first_sequence + run.count - 1, directory.commands.sequence)
    if recovered.report_sequence < directory.reports.sequence:
        raise LogRefused(
            f"{directory.folder}: the report log goes to {directory.reports.sequence}, but the "
            f"command log makes only {recovered.report_sequence} reports: commands that were "
            "answered are missing at its end; nothing was changed"
        )
    return recovered


def replay(recovered: Recovered, run: Run, logged: ReportCursor) -> None:
    """Execute the commands of one segment and compare their reports."""
    genesis = run.first_sequence == 1
    position, last = 1 + genesis, 1 + run.count  # slot 0 is the link
    records = run.words[: last * ENTRY_WORDS].view(RECORD)[position:]
    if records.size:
        recovered.last_time_ns = max(recovered.last_time_ns, int(records["time_ns"].max()))
        enters = records["login"][records["type"] == CommandType.ENTER]
        recovered.last_login = max(recovered.last_login, int(enters.max(initial=0)))
    while position < last:
        sequence = run.first_sequence + position - 1
        reached, count = execute(
            recovered.book,
            run.words,
            ALL_ONES,
            np.uint64(position),
            np.uint64(last),
            np.uint64(sequence),
            recovered.outbox,
        )
        made = recovered.outbox[: int(count) * ENTRY_WORDS]
        known = logged.compare(made)
        if known < int(count):
            recovered.unsent.append(made[known * ENTRY_WORDS :].copy())
        position = int(reached)
