"""Small logs for tests: written through the kernels, read back through LogDirectory."""

from pathlib import Path

import numpy as np

from matchbox.constants import CommandType, Kind
from matchbox.schema import OUTPUT, RECORD
from matchbox.wal.append import append_commands, append_reports
from matchbox.wal.directory import Limits, LogDirectory, Segments
from matchbox.wal.state import Log

LIMITS = Limits(100, 100, 4)
SEGMENT = 1 << 16
SLOTS = (SEGMENT - 4096) // 64 - 1  # records a segment holds behind its link


def commands(first: int, count: int) -> np.ndarray:
    """RECORD[count] that differ in every field that a client may fill."""
    records = np.zeros(count, RECORD)
    records["type"], records["instrument"] = CommandType.ENTER, 1
    records["order_id"] = np.arange(first, first + count)
    records["price"], records["time_ns"] = records["order_id"] * 3, records["order_id"] * 5
    return records


def reports(first: int, count: int) -> np.ndarray:
    """OUTPUT[count] from report_sequence `first`."""
    entries = np.zeros(count, OUTPUT)
    entries["report_sequence"] = np.arange(first, first + count)
    entries["kind"], entries["contra"] = Kind.ACCEPTED, entries["report_sequence"] * 7
    return entries


def append(log: Log, kernel: object, entries: np.ndarray) -> None:
    position = 0
    while position < entries.size:
        done = kernel(log, entries.view(np.uint64), np.uint64(position), np.uint64(entries.size))  # type: ignore[operator]
        position = int(done)


def write(folder: Path, command_count: int, report_count: int, answering: bool = False) -> None:
    """One opening of a log. `answering`: the reports name the last command, else none."""
    with LogDirectory(folder, LIMITS) as directory:
        first_command, first_report = directory.commands.sequence, directory.reports.sequence + 1
        command_log, report_log = directory.start("test", SEGMENT, ahead=2)
        first_command = max(first_command, 1) + 1
        append(command_log, append_commands, commands(first_command, command_count))
        entries = reports(first_report, report_count)
        if answering:
            entries["command"] = first_command + command_count - 1
        append(report_log, append_reports, entries)


def content(segments: Segments) -> np.ndarray:
    """All valid records as u64[n, 8], checksums left out."""
    runs = [run.words[8 : 8 + 8 * run.count].reshape(-1, 8).copy() for run in segments if run.count]
    rows = np.concatenate([np.zeros((0, 8), np.uint64), *runs])
    rows[:, 0 if segments.kind == "commands" else 6] >>= np.uint64(32)
    return rows
