"""Crashes at the steps of opening, rolling and closing; failures of the file system below."""

import ctypes
import errno
import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from matchbox.checksum import ADVANCE
from matchbox.errors import LogRefused, Unavailable
from matchbox.schema import RECORD_BYTES, SEGMENT_LAYOUT
from matchbox.wal import prepare, segment
from matchbox.wal.append import append_commands, append_reports, roll
from matchbox.wal.directory import LogDirectory
from matchbox.wal.state import FAILED, TAKEN
from tests.wal import logs
from tests.wal.logs import LIMITS, SEGMENT, SLOTS, append, write
from tests.wal.test_log import crc

BLOCK = SEGMENT_LAYOUT.size
SEGMENTS = 1000
MS_RDONLY, MS_REMOUNT, MNT_DETACH = 1, 32, 2


def abandon(directory: LogDirectory) -> None:
    """Leave a log as a kill would: nothing is tidied up but what the system tidies."""
    preparer, directory.preparer = directory.preparer, None
    if preparer is not None:
        preparer.stopping.set()
        preparer.thread.join()
    directory.close()


def numbers(folder: Path, kind: str) -> list[str]:
    return sorted(path.name for path in folder.glob(f"{kind}-*.log"))


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[ctypes.CDLL]:
    """`folder` on a file system of its own, or skip."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", str(folder).encode(), b"tmpfs", 0, f"size={size}".encode()) != 0:
        pytest.skip(f"no mount here: {os.strerror(ctypes.get_errno())}")
    try:
        yield libc
    finally:
        libc.umount2(str(folder).encode(), MNT_DETACH)


def test_advance_is_sixty_zero_bytes() -> None:
    table = ADVANCE.reshape(4, 256)
    random = np.random.default_rng(1)
    for seed in [0, 1, 0x80000000, 0xFFFFFFFF, *random.integers(0, 1 << 32, 500).tolist()]:
        advanced = 0
        for byte in range(4):
            advanced ^= int(table[byte, (seed >> (8 * byte)) & 0xFF])
        assert advanced == crc(seed, bytes(60)), hex(seed)


# -- opening -------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", range(4))
def test_a_crash_while_unused_segments_are_removed(
    tmp_path: Path, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After every number of deletions the log can still be opened."""
    write(tmp_path, 3, 3)
    directory = LogDirectory(tmp_path, LIMITS)
    directory.start("test", SEGMENT, ahead=4)
    abandon(directory)
    unlink, removed = Path.unlink, 0

    def fails_later(path: Path, missing_ok: bool = False) -> None:
        nonlocal removed
        if removed == after:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        removed += 1
        unlink(path, missing_ok)

    with monkeypatch.context() as patched, LogDirectory(tmp_path, LIMITS) as directory:
        patched.setattr(Path, "unlink", fails_later)
        with pytest.raises(Unavailable, match="Input/output error"):
            directory.start("test", SEGMENT)
    write(tmp_path, 2, 2)
    with LogDirectory(tmp_path, LIMITS) as directory:
        assert (directory.commands.sequence, directory.reports.sequence) == (6, 5)


@pytest.mark.parametrize("after", range(6))
def test_a_crash_while_closing(tmp_path: Path, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = LogDirectory(tmp_path, LIMITS)
    command_log, _ = directory.start("test", SEGMENT, ahead=4)
    append(command_log, append_commands, logs.commands(2, 5))
    unlink, removed = Path.unlink, 0

    def fails_later(path: Path, missing_ok: bool = False) -> None:
        nonlocal removed
        if removed == after:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        removed += 1
        unlink(path, missing_ok)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", fails_later)
        with pytest.raises(Unavailable, match="closing the log"):
            directory.close()
    with LogDirectory(tmp_path, LIMITS) as again:  # the lock was let go of
        assert again.commands.sequence == 6


@pytest.mark.parametrize("written", ["link", "torn link", "genesis", "torn genesis"])
def test_a_crash_at_the_first_records(tmp_path: Path, written: str) -> None:
    """The log is still new, and stays good for every opening after."""
    directory = LogDirectory(tmp_path, LIMITS)
    directory.start("test", SEGMENT, ahead=2)
    abandon(directory)
    path = tmp_path / numbers(tmp_path, "commands")[0]
    data = bytearray(path.read_bytes())
    keep = {"torn link": 30, "link": 64, "torn genesis": 64 + 30, "genesis": 128}[written]
    data[BLOCK + keep :] = bytes(len(data) - BLOCK - keep)
    path.write_bytes(data)
    with LogDirectory(tmp_path, LIMITS) as directory:
        assert directory.fresh == (written != "genesis")
    for opening in range(3):
        write(tmp_path, 4, 1)
        with LogDirectory(tmp_path, LIMITS._replace(orders=7)) as directory:
            assert directory.commands.sequence == 1 + 4 * (opening + 1)
            assert directory.limits == LIMITS


def test_a_crash_while_a_segment_is_made(tmp_path: Path) -> None:
    """What has no name yet is removed when the log goes on; what is not ours is left alone."""
    write(tmp_path, 3, 3)
    ours = tmp_path / "commands-0000000000000002.tmp"
    theirs = tmp_path / "notes.tmp"
    for path in (ours, theirs):
        path.write_bytes(b"half")
    LogDirectory(tmp_path, LIMITS).close()
    assert ours.exists(), "reading a log changes nothing"
    write(tmp_path, 3, 3)
    assert not ours.exists() and theirs.exists()


@pytest.mark.parametrize("step", ["copied", "zeroed"])
def test_a_crash_while_a_torn_tail_is_set_aside(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 8, 0)
    path = tmp_path / numbers(tmp_path, "commands")[0]
    data = bytearray(path.read_bytes())
    end = BLOCK + RECORD_BYTES * 10
    data[end : end + 20] = bytes(range(1, 21))
    path.write_bytes(data)
    fails = {"copied": "pwrite", "zeroed": "fsync"}[step]
    calls = 0

    def fail(*arguments: object) -> int:
        nonlocal calls
        calls += 1
        if step == "copied" or calls == 2:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return 0

    with monkeypatch.context() as patched, LogDirectory(tmp_path, LIMITS) as directory:
        patched.setattr(os, fails, fail)
        with pytest.raises(Unavailable):
            directory.start("test", SEGMENT)
    write(tmp_path, 4, 1)
    copies = [copy.read_bytes()[:20] for copy in tmp_path.glob("*.torn")]
    assert bytes(range(1, 21)) in copies
    with LogDirectory(tmp_path, LIMITS) as directory:
        assert directory.commands.sequence == 13


def test_a_command_that_was_answered_is_missing(tmp_path: Path) -> None:
    """The one fault that the command log alone cannot show: of its very last record."""
    with LogDirectory(tmp_path, LIMITS) as directory:
        command_log, report_log = directory.start("test", SEGMENT, ahead=1)
        append(command_log, append_commands, logs.commands(2, 5))
        entries = logs.reports(1, 5)
        entries["command"] = np.arange(2, 7)
        append(report_log, append_reports, entries)
    path = tmp_path / numbers(tmp_path, "commands")[0]
    data, last = path.read_bytes(), BLOCK + RECORD_BYTES * 6
    for byte in range(RECORD_BYTES):
        damaged = bytearray(data)
        damaged[last + byte] ^= 1 << byte % 8
        path.write_bytes(damaged)
        with pytest.raises(LogRefused, match=r"ends at 5, but the report log answers 6"):
            LogDirectory(tmp_path, LIMITS)
    path.write_bytes(data[:last] + bytes(len(data) - last))
    with pytest.raises(LogRefused, match="are missing at its end"):
        LogDirectory(tmp_path, LIMITS)
    path.write_bytes(data)
    path.rename(tmp_path / "away")
    with pytest.raises(LogRefused, match="commands"):
        LogDirectory(tmp_path, LIMITS)
    (tmp_path / "away").rename(path)
    LogDirectory(tmp_path, LIMITS).close()


def test_reports_that_are_missing_are_no_damage(tmp_path: Path) -> None:
    """They are made again from their commands."""
    write(tmp_path, 5, 5)
    for path in tmp_path.glob("reports-*.log"):
        path.unlink()
    with LogDirectory(tmp_path, LIMITS) as directory:
        assert (directory.commands.sequence, directory.reports.sequence) == (6, 0)


def test_the_stream_keeps_its_epoch_until_the_machine_restarts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def next_stream(command_count: int, report_count: int) -> int:
        with LogDirectory(tmp_path, LIMITS) as directory:
            directory.start("test", SEGMENT, ahead=1)
            found = directory.stream_epoch
        write(tmp_path, command_count, report_count)
        return found

    first = next_stream(3, 3)
    assert next_stream(1, 1) == first
    for module in ("directory", "segment"):
        monkeypatch.setattr(f"matchbox.wal.{module}.boot_id", lambda: b"another restart.")
    second = next_stream(0, 2)
    assert second > first
    assert next_stream(1, 1) == second, "though that epoch has reports only"


# -- rolling -------------------------------------------------------------------------------------


def test_a_thousand_segments_leak_nothing() -> None:
    """Descriptors and mappings stay few."""
    if not os.path.isdir("/dev/shm"):
        pytest.skip("no /dev/shm, and a disk would make this slow")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        with LogDirectory(folder, LIMITS) as directory:
            log, _ = directory.start("test", SEGMENT, ahead=3)
            records, start = logs.commands(2, 5), len(os.listdir("/proc/self/fd"))
            while int(log.cells[int(TAKEN)]) < SEGMENTS:
                roll(log)
                append_commands(log, records.view(np.uint64), np.uint64(0), np.uint64(1))
                log.cells[1] = log.cells[2]  # USED = CAPACITY: as if it were full
                if int(log.cells[int(TAKEN)]) % 100 == 0:
                    mapped = Path("/proc/self/maps").read_text().count(name)
                    assert mapped <= 2 * (3 + 2) + 1
                    assert len(os.listdir("/proc/self/fd")) <= start + 10
        assert name not in Path("/proc/self/maps").read_text()
        before = len(os.listdir("/proc/self/fd"))
        assert before <= start


@pytest.mark.parametrize("failing", ["commands", "reports"])
def test_both_logs_learn_that_no_segment_can_be_made(
    tmp_path: Path, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the one that is well would wait for ever for its next segment."""
    create = prepare.create

    def full(folder: Path, kind: str, *rest: object) -> int:
        if kind == failing and rest[0] == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return create(folder, kind, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(prepare, "create", full)
    with LogDirectory(tmp_path, LIMITS) as directory:
        both = directory.start("test", SEGMENT, ahead=2)
        logs_by_kind = dict(zip(("commands", "reports"), both, strict=True))
        kernel = append_commands if failing == "commands" else append_reports
        entries = logs.commands(2, SLOTS) if failing == "commands" else logs.reports(1, SLOTS + 1)
        append(logs_by_kind[failing], kernel, entries)
        preparer = directory.preparer
        assert preparer is not None
        preparer.thread.join(30)
        assert not preparer.thread.is_alive()
        assert [int(log.cells[int(FAILED)]) for log in both] == [errno.ENOSPC] * 2
        assert f"{failing}-0000000000000003.log: No space left on device" in directory.failure


def test_a_failure_that_nobody_thought_of_is_told_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LogDirectory(tmp_path, LIMITS) as directory:
        both = directory.start("test", SEGMENT, ahead=1)

        def broken(*arguments: object) -> int:
            raise MemoryError("no memory")

        monkeypatch.setattr(prepare, "create", broken)
        append(both[1], append_reports, logs.reports(1, 1))
        preparer = directory.preparer
        assert preparer is not None
        preparer.thread.join(30)
        assert [int(log.cells[int(FAILED)]) for log in both] == [errno.EIO] * 2
        assert "MemoryError: no memory" in directory.failure
    with LogDirectory(tmp_path, LIMITS) as again:
        assert again.reports.sequence == 1


def test_a_segment_that_cannot_be_mapped_leaves_no_hole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has its name already, behind others that are not used."""
    real = prepare.Mapping

    def fails(path: Path, writable: bool) -> segment.Mapping:
        if path.name == "reports-0000000000000003.log":
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        return real(path, writable)

    monkeypatch.setattr(prepare, "Mapping", fails)
    with LogDirectory(tmp_path, LIMITS) as directory:
        with pytest.raises(Unavailable, match="Cannot allocate memory"):
            directory.start("test", SEGMENT, ahead=4)
    assert numbers(tmp_path, "reports") == []
    LogDirectory(tmp_path, LIMITS).close()


def test_a_system_that_cannot_populate_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux before 5.14: the pages are touched by hand, and keep what they hold."""
    monkeypatch.setattr(segment, "MADV_POPULATE_WRITE", 99)
    write(tmp_path, 3, 3)
    path = tmp_path / numbers(tmp_path, "commands")[0]
    before = path.read_bytes()
    mapping = segment.Mapping(path, writable=True)
    mapping.close()
    assert path.read_bytes() == before
    assert len(before) % mmap.PAGESIZE == 0


# -- places --------------------------------------------------------------------------------------


def test_no_space_for_the_first_segments(tmp_path: Path) -> None:
    with small_disk(tmp_path, "1m"):
        with LogDirectory(tmp_path, LIMITS) as directory:
            with pytest.raises(Unavailable, match=f"{tmp_path}.*No space left"):
                directory.start("test", 1 << 20)
        assert numbers(tmp_path, "commands") == []
        assert list(tmp_path.glob("*.tmp")) == []
        write(tmp_path, 3, 3)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    with small_disk(tmp_path, "1m") as libc:
        write(tmp_path, 3, 3)
        flags = MS_RDONLY | MS_REMOUNT
        assert libc.mount(b"none", str(tmp_path).encode(), b"tmpfs", flags, None) == 0
        with pytest.raises(Unavailable, match=f"{tmp_path}: Read-only file system"):
            LogDirectory(tmp_path, LIMITS)


def test_a_folder_by_another_name(tmp_path: Path) -> None:
    """A link to the folder is the same log, with the same lock."""
    (tmp_path / "log").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "log")
    write(tmp_path / "link", 3, 3)
    with LogDirectory(tmp_path / "log", LIMITS) as directory:
        assert directory.commands.sequence == 4
        with pytest.raises(LogRefused, match=f"in use by process {os.getpid()}"):
            LogDirectory(tmp_path / "link", LIMITS)
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    with pytest.raises(Unavailable, match="nowhere"):
        LogDirectory(tmp_path / "nowhere", LIMITS)


def test_a_file_system_without_holes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Space stays taken; nothing else is different."""

    class NoHoles:
        @staticmethod
        def fallocate(*arguments: object) -> int:
            return -1

    monkeypatch.setattr(segment, "LIBC", NoHoles)
    for _ in range(3):
        write(tmp_path, 5, 5)
    with LogDirectory(tmp_path, LIMITS) as directory:
        assert (directory.commands.sequence, directory.reports.sequence) == (16, 15)


def test_the_two_logs_end_in_different_segments(tmp_path: Path) -> None:
    for command_count, report_count in [(SLOTS, 0), (0, 2 * SLOTS), (1, 1), (0, 0), (0, 3 * SLOTS)]:
        write(tmp_path, command_count, report_count)
    with LogDirectory(tmp_path, LIMITS) as directory:
        assert directory.commands.sequence == SLOTS + 2
        assert directory.reports.sequence == 5 * SLOTS + 1
        assert directory.commands.used != directory.reports.used
