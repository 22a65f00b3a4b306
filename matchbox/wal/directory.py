"""A log directory: who owns it, what is in it, where it goes on. Plain Python.

    lock                        flock, with the owner's process number inside
    commands-<number>.log       the command log, segments without holes
    reports-<number>.log        the report log
    *.torn                      copies of what a crash left half written

Opening reads and verifies everything and writes nothing but the lock. Rules, in the order in which
they are applied:

1.  The lock, or refuse.
2.  Every header and link. A bad checksum, an unknown feature, a foreign uuid, a hole in the
    numbering or a link that does not fit its predecessor: refuse.
3.  Every record, by the chain. A segment ends at its capacity, or where zeros begin and the next
one's link goes on.
4.  The first slot of the last segment that is not valid, zeros aside, is a *torn tail* if nothing
    stands behind it, or if the machine was started anew since (then nothing unsynced was
    promised). It is copied aside and zeroed when the log goes on. Otherwise it is *corruption*:
    refuse, and change nothing.
5.  A command log that ends before the command of the last report: refuse.

At level `process`, the only one so far, records survive the death of the process as soon as they
are stored. A restart of the machine may lose those the system had not written back; `rebooted`
says that it happened. The durable watermark of level `power` will narrow rule 4 and add its files
here.
"""

import fcntl
import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import numpy as np

from matchbox.constants import CommandType
from matchbox.errors import LogRefused, Unavailable
from matchbox.schema import GENESIS, LINK, OUTPUT, RECORD_BYTES
from matchbox.wal.append import append_commands
from matchbox.wal.prepare import Preparer, Supply
from matchbox.wal.scan import link_checksum, scan_commands, scan_reports
from matchbox.wal.segment import (
    HEADER_WORDS,
    KINDS,
    NAME,
    SEGMENT_BYTES_DEFAULT,
    SEGMENT_BYTES_MIN,
    TEMPORARY,
    Identity,
    Mapping,
    boot_id,
    name_of,
    read_header,
    sync_folder,
    trim,
)
from matchbox.wal.state import Log, allocate

SLOT_WORDS = RECORD_BYTES // 8
LOW_HALF = 0xFFFFFFFF
SCANS = {"commands": scan_commands, "reports": scan_reports}


class Limits(NamedTuple):
    """What the genesis record holds: a log keeps the limits it was made with."""

    orders: int
    levels: int
    instruments: int


@dataclass(frozen=True)
class Run:
    """Valid records of one segment. `words` is valid until the next is asked for."""

    path: Path
    words: np.ndarray  # u64, eight a slot, read-only; slot 0 is the link
    first_sequence: int
    count: int


class Segments:
    """One of the two logs, verified: its segments, where it ends and how."""

    def __init__(
        self, folder: Path, kind: str, log_uuid: bytes | None, current_boot: bytes
    ) -> None:
        self.folder, self.kind = folder, kind
        self.uuid = log_uuid
        self.sequence = self.chain = self.epoch = 0
        self.command = 0  # reports: low half of the last one's command
        self.runs: list[tuple[Path, int, int]] = []  # path, first sequence, count
        self.torn: tuple[Path, int, int] | None = (
            None  # path, first bad slot, slots up to the last nonzero one
        )
        self.boots: list[tuple[bytes, int]] = []  # of each segment in use: boot id, epoch
        self.rebooted = False
        self.count = len(self.numbers())
        self.used = self.count
        while self.used and self.unused(self.used):
            self.used -= 1
        for number in range(1, self.count + 1):
            self.read(number, current_boot)

    def numbers(self) -> list[int]:
        """Segment numbers, from 1 without holes, or refuse."""
        names = (NAME.fullmatch(name) for name in os.listdir(self.folder))
        found = sorted(int(name[2], 16) for name in names if name and name[1] == self.kind)
        for expected, number in enumerate(found, 1):
            if number != expected:
                missing = self.folder / name_of(self.kind, expected)
                raise LogRefused(f"{missing}: segment is missing: expected numbers without holes")
        return found

    def path(self, number: int) -> Path:
        return self.folder / name_of(self.kind, number)

    def unused(self, number: int) -> bool:
        """Made ready, never taken: no link."""
        with self.path(number).open("rb") as file:
            return not any(os.pread(file.fileno(), RECORD_BYTES, HEADER_WORDS * 8))

    def read(self, number: int, current_boot: bytes) -> None:
        path = self.path(number)
        block = read_header(path, self.kind, number)
        found = bytes(block["log_uuid"])
        if self.uuid is not None and found != self.uuid:
            raise LogRefused(
                f"{path}: belongs to log {uuid.UUID(bytes=found)}: "
                f"expected {uuid.UUID(bytes=self.uuid)}"
            )
        self.uuid = found
        self.rebooted = bytes(block["boot_id"]) != current_boot
        mapping = Mapping(path, writable=False)
        try:
            words = mapping.words[HEADER_WORDS:]
            if number <= self.used:
                self.follow(path, words, number, int(block["salt"]))
                if number <= self.used:  # its link is not torn
                    self.boots.append((bytes(block["boot_id"]), self.epoch))
            elif words.any():
                offset = HEADER_WORDS * 8 + int(np.flatnonzero(words)[0]) * 8
                raise LogRefused(
                    f"{path}: offset {offset}: not zero: expected no record before a link"
                )
        finally:
            mapping.close()

    def follow(self, path: Path, words: np.ndarray, number: int, salt: int) -> None:
        """Check a segment's link, then its records."""
        last = number == self.used
        link = words[:SLOT_WORDS].view(LINK)[0]
        if (
            last
            and int(link["checksum"]) != link_checksum(words, np.uint64(salt))
            and not words[SLOT_WORDS:].any()
        ):
            self.torn = (path, 0, 1)
            self.used -= 1
            return
        expected = {
            "type": int(CommandType.LINK),
            "sequence": self.sequence,
            "chain": self.chain,
            "predecessor": number - 1,
            "checksum": int(link_checksum(words, np.uint64(salt))),
        }
        for field, value in expected.items():
            if int(link[field]) != value:
                raise LogRefused(
                    f"{path}: link: {field} is {int(link[field])}: expected {value}: "
                    "records between this segment and the one before are missing or damaged"
                )
        if int(link["epoch"]) < self.epoch:
            raise LogRefused(
                f"{path}: link: epoch is {link['epoch']}: expected {self.epoch} or more"
            )
        self.epoch = int(link["epoch"])
        slots = words.size // SLOT_WORDS
        end, sequence, chain = (
            int(value)
            for value in SCANS[self.kind](
                words,
                np.uint64(1),
                np.uint64(slots),
                np.uint64(self.sequence),
                np.uint64(link["checksum"]),
            )
        )
        self.runs.append((path, self.sequence + 1, end - 1))
        if self.kind == "reports" and end > 1:
            last_report = words[(end - 1) * SLOT_WORDS : end * SLOT_WORDS].view(OUTPUT)[0]
            self.command = int(last_report["command"])
        beyond = np.flatnonzero(words[end * SLOT_WORDS :])
        if beyond.size:
            self.judge(path, end, end + 1 + int(beyond[-1]) // SLOT_WORDS, last)
        self.sequence, self.chain = sequence, chain

    def judge(self, path: Path, bad: int, end: int, last: bool) -> None:
        """Slots [bad, end) are not valid, the last of them is not zero: torn, or damaged?"""
        if last and (self.rebooted or end == bad + 1):
            self.torn = (path, bad, end)
            return
        offset = HEADER_WORDS * 8 + bad * RECORD_BYTES
        raise LogRefused(
            f"{path}: offset {offset}: record {bad} is damaged, "
            f"and {end - bad - 1} more stand behind it: "
            f"expected sequence {self.runs[-1][1] + bad - 1}; nothing was changed"
        )

    def __iter__(self) -> Iterator[Run]:
        """The valid records, segment by segment."""
        for path, first_sequence, count in self.runs:
            mapping = Mapping(path, writable=False)
            try:
                yield Run(path, mapping.words[HEADER_WORDS:], first_sequence, count)
            finally:
                mapping.close()

    def set_torn_aside(self) -> None:
        """Copy a torn tail to a file of its own, then zero it."""
        if self.torn is None:
            return
        path, bad, end = self.torn
        offset, size = HEADER_WORDS * 8 + bad * RECORD_BYTES, (end - bad) * RECORD_BYTES
        with path.open("r+b") as file:
            aside = path.with_suffix(f".{time.time_ns()}.torn")
            with aside.open("wb") as copy:
                copy.write(os.pread(file.fileno(), size, offset))
                copy.flush()
                os.fsync(copy.fileno())
            os.pwrite(file.fileno(), bytes(size), offset)
            os.fsync(file.fileno())
        self.torn = None

    def drop_unused(self) -> int:
        """Remove segments that were not made whole, or made ready and never taken. Returns the
        number of the last that stays."""
        # From the end, so that a crash here leaves no hole in the numbering.
        for number in range(self.count, self.used, -1):
            self.path(number).unlink()
        for left in self.folder.glob(f"{self.kind}-*{TEMPORARY}"):
            left.unlink()
        if self.runs:
            path, _, count = self.runs[-1]
            trim(path, 1 + count)
        sync_folder(self.folder)
        return self.used


class LogDirectory:
    """The two logs of one directory, locked and verified.

    Attributes:
        uuid: 16 bytes that name the log.
        limits: of its genesis record, or those asked for if the log is new.
        commands, reports: what is in it.
        fresh: whether it holds nothing yet.
    """

    def __init__(self, folder: Path, limits: Limits) -> None:
        """Lock and read. Raises Unavailable if the folder cannot be had, LogRefused if the log
        cannot."""
        self.folder = folder
        self.preparer: Preparer | None = None
        self.logs: tuple[Log, Log] | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise Unavailable(
                f"{folder}: {error.strerror}: expected a folder for the log"
            ) from None
        try:
            self.take_lock()
            boot = boot_id()
            self.commands = Segments(folder, "commands", None, boot)
            self.reports = Segments(folder, "reports", self.commands.uuid, boot)
            self.fresh = self.commands.sequence == 0
            if self.fresh and self.reports.sequence:
                raise LogRefused(f"{folder}: reports without commands: expected both logs")
            self.refuse_if_behind()
            self.uuid = self.commands.uuid or self.reports.uuid or uuid.uuid4().bytes
            self.limits = limits if self.fresh else self.read_genesis()
        except OSError as error:
            self.close()
            raise Unavailable(
                f"{error.filename or folder}: {error.strerror}: reading the log"
            ) from None
        except BaseException:
            self.close()
            raise

    def take_lock(self) -> None:
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(self.lock, 32, 0).decode(errors="replace").strip()
            raise LogRefused(f"{self.folder}: in use by process {owner or 'unknown'}") from None
        os.ftruncate(self.lock, 0)
        os.pwrite(self.lock, f"{os.getpid()}\n".encode(), 0)

    def refuse_if_behind(self) -> None:
        """A command is logged before its reports, so none may be missing that has one.

        This tells a damaged last command from a torn one: a torn one was never executed.
        """
        beyond = (self.reports.command - self.commands.sequence) & LOW_HALF
        if 0 < beyond <= LOW_HALF >> 1:
            raise LogRefused(
                f"{self.folder}: the command log ends at {self.commands.sequence}, but the report "
                f"log answers {self.commands.sequence + beyond}: commands that were answered are "
                "missing at its end; nothing was changed"
            )

    @property
    def rebooted(self) -> bool:
        """Whether the machine was started anew since the log was last written."""
        return self.commands.rebooted and not self.fresh

    def read_genesis(self) -> Limits:
        for run in self.commands:
            record = run.words[SLOT_WORDS : 2 * SLOT_WORDS].view(GENESIS)[0]
            if not run.count:
                continue  # a crash came between the link and the genesis
            if int(record["type"]) == CommandType.GENESIS:
                return Limits(*(int(record[name]) for name in Limits._fields))
            raise LogRefused(f"{run.path}: first record is no genesis")
        raise LogRefused(f"{self.folder}: no genesis record")

    def start(
        self, build: str, size: int = SEGMENT_BYTES_DEFAULT, ahead: int = 2
    ) -> tuple[Log, Log]:
        """Go on behind the last record, in new segments and a new epoch. Returns the logs of
        commands and reports.

        A new log gets its genesis. Raises Unavailable if no segment can be made.
        """
        if size < SEGMENT_BYTES_MIN or size % SEGMENT_BYTES_MIN:
            raise Unavailable(
                f"segment of {size} bytes: expected a multiple of {SEGMENT_BYTES_MIN}"
            )
        identity = Identity(self.uuid, boot_id(), build.encode())
        epoch = max(self.commands.epoch, self.reports.epoch) + 1
        supplies, logs = [], []
        try:
            for segments in (self.commands, self.reports):
                segments.set_torn_aside()
                number = segments.drop_unused()
                log = allocate(segments.sequence, segments.chain, number, epoch)
                supplies.append(Supply(self.folder, segments.kind, log, size, identity))
                logs.append(log)
            self.preparer = Preparer(supplies, ahead)
            self.preparer.start()
        except OSError as error:
            self.close()
            raise Unavailable(f"{self.folder}: {error.strerror}: no segment for the log") from None
        self.logs = logs[0], logs[1]
        if self.fresh:
            self.write_genesis(self.logs[0])
        return self.logs

    def write_genesis(self, log: Log) -> None:
        record = np.zeros(1, GENESIS)
        record["type"], record["time_ns"] = CommandType.GENESIS, time.time_ns()
        for name, value in self.limits._asdict().items():
            record[name] = value
        append_commands(log, record.view(np.uint64), np.uint64(0), np.uint64(1))

    @property
    def stream_epoch(self) -> int:
        """The first epoch since this start of the machine. Once `start` has been called."""
        boot, boots = boot_id(), self.commands.boots + self.reports.boots
        following = max(self.commands.epoch, self.reports.epoch) + 1
        return min((epoch for made_in, epoch in boots if made_in == boot), default=following)

    @property
    def failure(self) -> str:
        """Why no further segment can be made; "" while all is well."""
        return self.preparer.failure if self.preparer else ""

    def close(self) -> None:
        """Sync, unmap and unlock. No kernel may append any more.

        Raises Unavailable if the log could not be synced; it is unlocked all the same.
        """
        preparer, self.preparer = self.preparer, None
        try:
            if preparer:
                preparer.close()
        except OSError as error:
            place = error.filename or self.folder
            raise Unavailable(f"{place}: {error.strerror}: closing the log") from None
        finally:
            if self.lock >= 0:
                os.close(self.lock)
                self.lock = -1

    def __enter__(self) -> "LogDirectory":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


assert set(SCANS) == set(KINDS)
