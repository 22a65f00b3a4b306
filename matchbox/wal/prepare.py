"""The preparer: a thread that has the next segments ready before the appender needs them. Plain
Python.

For each log it keeps `ahead` segments made, synced, mapped and touched, and unmaps those that the
appender has left. It polls; a segment holds a million records, so a look every few milliseconds is
soon enough. When no further segment can be made it says why in the log's FAILED cell and in
`failure`, and stops: nothing is retried behind the operator's back.
"""

import errno
import os
import threading
from pathlib import Path

import numpy as np

from matchbox.atomics import U, store_release
from matchbox.jit import kernel
from matchbox.wal.segment import Identity, Mapping, create, name_of, trim
from matchbox.wal.state import FAILED, QUEUE, READY, READY_WORDS, SEGMENT, TAKEN, USED, Log

POLL_S = 0.01


@kernel(entry=True)
def announce(log, address, slots, number, salt):
    """Hand a segment to the appender: its place first, then the count that says so."""
    ready = log.cells[READY]
    at = (ready & U(QUEUE - 1)) * U(READY_WORDS)
    log.ready[at] = address
    log.ready[at + U(1)] = slots
    log.ready[at + U(2)] = number
    log.ready[at + U(3)] = salt
    store_release(log.cells, READY, ready + U(1))


@kernel(entry=True)
def give_up(log, code):
    store_release(log.cells, FAILED, code)


class Supply:
    """Segments of one log: those mapped, and the number of the next."""

    def __init__(self, folder: Path, kind: str, log: Log, size: int, identity: Identity) -> None:
        self.folder, self.kind, self.log, self.size, self.identity = (
            folder,
            kind,
            log,
            size,
            identity,
        )
        self.first_number = self.next_number = int(log.cells[int(SEGMENT)]) + 1
        self.mapped: list[Mapping] = []  # the last READY - released ones
        self.released = 0

    def path(self, number: int) -> Path:
        return self.folder / name_of(self.kind, number)

    def fill(self, ahead: int) -> bool:
        """Make a segment if fewer than `ahead` wait. True if one was made. Raises OSError."""
        if int(self.log.cells[int(READY)]) - int(self.log.cells[int(TAKEN)]) >= ahead:
            return False
        salt = create(self.folder, self.kind, self.next_number, self.size, self.identity)
        mapping = Mapping(self.path(self.next_number), writable=True)
        self.mapped.append(mapping)
        place = (mapping.slots_address, mapping.slot_count, self.next_number, salt)
        announce(self.log, *(np.uint64(value) for value in place))
        self.next_number += 1
        return True

    def release(self) -> None:
        """Unmap what the appender has left: all before the segment it took last."""
        while self.released + 1 < int(self.log.cells[int(TAKEN)]):
            self.mapped.pop(0).close()
            self.released += 1

    def close(self) -> None:
        """Unmap all, delete what was never taken, give back what was not used, sync what was."""
        for mapping in self.mapped:
            mapping.close()
        self.mapped.clear()
        last = self.first_number + int(self.log.cells[int(TAKEN)]) - 1
        # From the end, so that a crash here leaves no hole in the numbering.
        for number in range(self.next_number, last, -1):
            self.path(number).unlink(missing_ok=True)
        if last >= self.first_number:
            trim(self.path(last), int(self.log.cells[int(USED)]))
        for number in range(self.first_number, last + 1):
            with self.path(number).open("rb") as file:
                os.fsync(file.fileno())


class Preparer:
    """Runs `Supply`s on a thread of its own.

    Attributes:
        failure: why no further segment can be made, a sentence; "" while all is well.
    """

    def __init__(self, supplies: list[Supply], ahead: int) -> None:
        self.supplies, self.ahead = supplies, min(ahead, QUEUE - 1)
        self.failure = ""
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run, name="matchbox-preparer", daemon=True)

    def start(self) -> None:
        """Make the first segments now, on this thread; the rest later. Raises OSError."""
        for supply in self.supplies:
            while supply.fill(self.ahead):
                pass
        self.thread.start()

    def run(self) -> None:
        while not self.stopping.wait(POLL_S):
            for supply in self.supplies:
                supply.release()
                try:
                    supply.fill(self.ahead)
                except Exception as error:  # a thread that dies silently would hang the appender
                    self.give_up(supply, error)
                    return

    def give_up(self, supply: Supply, error: Exception) -> None:
        """No further segments, of neither log: whichever runs out first must not wait for one."""
        code, reason = errno.EIO, f"{type(error).__name__}: {error}"
        if isinstance(error, OSError) and error.errno:
            code, reason = error.errno, os.strerror(error.errno)
        path = supply.path(supply.next_number)
        self.failure = f"{path}: {reason}: no further segment of the log"
        for each in self.supplies:
            give_up(each.log, np.uint64(code))

    def close(self) -> None:
        self.stopping.set()
        if self.thread.is_alive():
            self.thread.join()
        for supply in self.supplies:
            supply.close()
