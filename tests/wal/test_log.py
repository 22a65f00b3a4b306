"""The log: what is appended is read back, through segments, openings and crashes."""

import ctypes
import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import crcmod.predefined
import numpy as np
import pytest

from matchbox.constants import CommandType
from matchbox.errors import LogRefused, Unavailable
from matchbox.schema import GENESIS, LINK, OUTPUT, RECORD, SEGMENT
from matchbox.wal.append import append_commands, append_reports
from matchbox.wal.directory import LogDirectory
from matchbox.wal.state import COMMITTED, FAILED
from tests.wal import logs
from tests.wal.logs import LIMITS, SLOTS, append, content, write

CRC = crcmod.predefined.mkPredefinedCrcFun("crc-32c")
INVERTED = 0xFFFFFFFF


def crc(seed: int, data: bytes) -> int:
    """crcmod's CRC-32C without its inversions."""
    return CRC(data, seed ^ INVERTED) ^ INVERTED


def test_checksums_are_those_of_crcmod(tmp_path: Path) -> None:
    write(tmp_path, 10, 10)
    for kind in ("commands", "reports"):
        data = (tmp_path / f"{kind}-0000000000000001.log").read_bytes()
        header = np.frombuffer(data[:4096], SEGMENT)[0]
        assert int(header["checksum"]) == crc(0, data[:4092])
        link = data[4096:4160]
        chain = crc(int(header["salt"]), link[4:])
        assert chain == int(np.frombuffer(link, LINK)[0]["checksum"])
        for start in range(4160, 4160 + 10 * 64, 64):
            row = data[start : start + 64]
            summed = row[4:] if kind == "commands" else row[:48] + row[52:]
            chain = crc(chain, summed)
            stored = np.frombuffer(row, RECORD if kind == "commands" else OUTPUT)[0]
            assert int(stored["checksum"]) == chain


def test_the_first_record_is_the_genesis(tmp_path: Path) -> None:
    write(tmp_path, 1, 0)
    with LogDirectory(tmp_path, LIMITS) as directory:
        first = next(iter(directory.commands)).words[8:16].view(GENESIS)[0]
        assert first["type"] == CommandType.GENESIS and first["command_sequence"] == 1
        assert tuple(int(first[name]) for name in LIMITS._fields) == LIMITS


def test_records_come_back_through_many_segments_and_openings(tmp_path: Path) -> None:
    counts = [(5, 0), (SLOTS - 1, 3 * SLOTS), (2 * SLOTS + 7, 1), (0, 0), (1, SLOTS)]
    for command_count, report_count in counts:
        write(tmp_path, command_count, report_count)
    with LogDirectory(tmp_path, LIMITS) as directory:
        total = sum(c for c, _ in counts)
        assert directory.commands.sequence == 1 + total
        made = logs.commands(2, total).view(np.uint64).reshape(-1, 8).copy()
        made[:, 1] = np.arange(2, total + 2)
        assert np.array_equal(content(directory.commands)[1:], made)
        expected = logs.reports(1, sum(r for _, r in counts)).view(np.uint64).reshape(-1, 8)
        assert np.array_equal(content(directory.reports), expected)
        assert directory.commands.epoch == 4, "one for each opening that wrote"


def test_the_appender_rolls_without_the_gil(tmp_path: Path) -> None:
    count = 20 * SLOTS
    with LogDirectory(tmp_path, LIMITS) as directory:
        log, _ = directory.start("test", logs.SEGMENT, ahead=3)
        thread = threading.Thread(
            target=append, args=(log, append_commands, logs.commands(2, count))
        )
        thread.start()
        thread.join()
        assert int(log.cells[int(COMMITTED)]) == count + 1
        mapped = sum(len(s.mapped) for s in directory.preparer.supplies)  # type: ignore[union-attr]
        assert mapped <= 2 * (3 + 2), "segments left behind are unmapped"
    with LogDirectory(tmp_path, LIMITS) as directory:
        assert directory.commands.sequence == count + 1


def test_a_second_owner_is_refused_and_told_the_first(tmp_path: Path) -> None:
    write(tmp_path, 3, 3)
    code = (
        "import sys, time; from pathlib import Path; from tests.wal.logs import *\n"
        f"log = LogDirectory(Path({str(tmp_path)!r}), LIMITS)\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None and owner.stdout.readline() == b"ready\n"
        with pytest.raises(LogRefused, match=f"in use by process {owner.pid}"):
            LogDirectory(tmp_path, LIMITS)
        owner.kill()
    LogDirectory(tmp_path, LIMITS).close()


def test_a_failed_opening_lets_go_of_the_lock(tmp_path: Path) -> None:
    write(tmp_path, 3, 3)
    (tmp_path / "commands-0000000000000001.log").write_bytes(b"short")
    with pytest.raises(LogRefused):
        LogDirectory(tmp_path, LIMITS)
    with (tmp_path / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("seed", range(20))
def test_killed_while_appending(tmp_path: Path, seed: int) -> None:
    """kill -9 of a writer at any time: all that it had committed is there."""
    code = (
        "import sys, numpy as np; from pathlib import Path; from tests.wal.logs import *\n"
        "from matchbox.wal.state import COMMITTED\n"
        f"log = LogDirectory(Path({str(tmp_path)!r}), LIMITS)\n"
        "command_log, report_log = log.start('test', SEGMENT, ahead=3)\n"
        f"size = {1 + 61 * seed}\n"
        "while True:\n"
        "    first = int(command_log.cells[int(COMMITTED)]) + 1\n"
        "    append(command_log, append_commands, commands(first, size))\n"
        "    print(int(command_log.cells[int(COMMITTED)]), flush=True)\n"
    )
    random = np.random.default_rng(seed)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        promised = int(writer.stdout.readline())
        time.sleep(random.uniform(0, 0.2))
        writer.send_signal(signal.SIGKILL)
        lines = writer.stdout.read().split(b"\n")[:-1]
        promised = int(lines[-1]) if lines else promised
    with LogDirectory(tmp_path, LIMITS) as directory:
        assert directory.commands.sequence >= promised, f"seed {seed}"
        rows = content(directory.commands)[1:]
        made = logs.commands(2, len(rows)).view(np.uint64).reshape(-1, 8)
        assert np.array_equal(rows[:, 2:], made[:, 2:])
    write(tmp_path, SLOTS, 5)
    with LogDirectory(tmp_path, LIMITS) as directory:
        assert directory.commands.sequence == len(rows) + 1 + SLOTS


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system, which needs root")
def test_a_full_disk_stops_the_log_and_loses_nothing(tmp_path: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", str(tmp_path).encode(), b"tmpfs", 0, b"size=512k") != 0:
        pytest.skip(f"no mount here: {os.strerror(ctypes.get_errno())}")
    try:
        with LogDirectory(tmp_path, LIMITS) as directory:
            log, _ = directory.start("test", logs.SEGMENT, ahead=1)
            done, records = 0, logs.commands(2, 20 * SLOTS)
            while not log.cells[int(FAILED)]:
                position = append_commands(
                    log, records.view(np.uint64), np.uint64(done), np.uint64(records.size)
                )
                done = int(position)
            done = int(log.cells[int(COMMITTED)])
            assert int(log.cells[int(FAILED)]) == errno.ENOSPC
            assert "No space left" in directory.failure and str(tmp_path) in directory.failure
        with LogDirectory(tmp_path, LIMITS) as directory:
            assert directory.commands.sequence == done > SLOTS
            with pytest.raises(Unavailable, match="No space left"):
                directory.start("test", 1 << 20)
    finally:
        libc.umount2(str(tmp_path).encode(), 2)


def test_places_that_cannot_be_a_log(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for folder in (file, file / "below"):
        with pytest.raises(Unavailable, match=str(file)):
            LogDirectory(folder, LIMITS)
    with LogDirectory(tmp_path / "log", LIMITS) as directory:
        for size in (0, 100, logs.SEGMENT + 64):
            with pytest.raises(Unavailable, match="multiple of 65536"):
                directory.start("test", size)


def test_space_that_was_not_used_is_given_back(tmp_path: Path) -> None:
    for _ in range(4):
        write(tmp_path, 1, 1)
    used = sum(path.stat().st_blocks * 512 for path in tmp_path.glob("*.log"))
    if used > 8 * 4 * 8192:
        pytest.skip("this file system cannot punch holes")
    assert len(list(tmp_path.glob("*.log"))) == 8


def test_reports_are_appended_as_they_are(tmp_path: Path) -> None:
    with LogDirectory(tmp_path, LIMITS) as directory:
        _, log = directory.start("test", logs.SEGMENT, ahead=1)
        entries = logs.reports(1, 3)
        entries["checksum"] = 0xABCDEF01  # a login, in the outbox
        append(log, append_reports, entries)
        assert (entries["checksum"] == 0xABCDEF01).all(), "the outbox is left alone"
    with LogDirectory(tmp_path, LIMITS) as directory:
        assert directory.reports.sequence == 3
