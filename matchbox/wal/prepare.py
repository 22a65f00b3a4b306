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

POLL_S = 0.002


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
        self.next_number = int(log.cells[int(SEGMENT)]) + 1
        self.mapped: list[Mapping] = []  # the last READY - released ones
        self.released = 0

    def fill(self, ahead: int) -> bool:
        """Make a segment if fewer than `ahead` wait. True if one was made. Raises OSError."""
        if int(self.log.cells[int(READY)]) - int(self.log.cells[int(TAKEN)]) >= ahead:
            return False
        salt = create(self.folder, self.kind, self.next_number, self.size, self.identity)
        mapping = Mapping(self.folder / name_of(self.kind, self.next_number), writable=True)
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
        """Give back what was not used, sync the rest, unmap all, delete what was never taken."""
        taken = int(self.log.cells[int(TAKEN)]) - self.released
        for place, mapping in enumerate(self.mapped):
            mapping.close()
            if place >= taken:
                mapping.path.unlink()
                continue
            if place == taken - 1:
                trim(mapping.path, int(self.log.cells[int(USED)]))
            with mapping.path.open("rb") as file:
                os.fsync(file.fileno())
        self.mapped.clear()


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
                except OSError as error:
                    path = supply.folder / name_of(supply.kind, supply.next_number)
                    self.failure = f"{path}: {error.strerror}: no further segment of the log"
                    give_up(supply.log, np.uint64(error.errno or errno.EIO))
                    return

    def close(self) -> None:
        self.stopping.set()
        if self.thread.is_alive():
            self.thread.join()
        for supply in self.supplies:
            supply.close()
