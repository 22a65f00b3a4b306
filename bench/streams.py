"""How fast the engine itself is: workload files through log and book. `python -m bench.streams
FILE… [--json]`.

What the timer includes: for each message the append to the command log (a mapped file, chained
CRC), matching, and the append of its reports to the report log (a mapped file, chained CRC).
Segments are made ready before; messages are records in memory; nothing is published. One thread.
The prefill that a file marks is fed and not timed.

Throughput and latency are measured in runs of their own, each on a new engine. A message's latency
is the cycles of its log append and its matching, look-ahead for those behind it included;
appending its reports is not.

The SHA-256 is of the canonical report lines of one more run (`matchbox/canonical.py`).
"""

import argparse
import contextlib
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from matchbox.atomics import U, cycles
from matchbox.book import state
from matchbox.book.state import REPORTS
from matchbox.canonical import sha256
from matchbox.constants import Kind
from matchbox.decode import workload
from matchbox.embedded import Engine
from matchbox.engine import log_and_match, log_reports
from matchbox.errors import MatchboxError
from matchbox.jit import kernel
from matchbox.memory import huge
from matchbox.wal.append import make_room
from matchbox.wal.directory import Limits, LogDirectory
from matchbox.wal.state import Log

ORDERS, LEVELS, INSTRUMENTS = 1 << 20, 1 << 17, 16
BATCH = U(512)
MIB = 1 << 20
ALL_ONES = U(2**64 - 1)
PERCENTILES = (50, 99, 99.9)
TIMER = "log append with CRC, matching, report log append with CRC; both logs mapped files"
LATENCY_TIMER = "log append with CRC and matching of one message; two reads of the cycle counter"


@kernel(entry=True)
def stream(commands, reports, book, words, first, last, outbox, latency):
    """Messages [first, last) of `words` (u64, eight a message) through log and book. Returns the
    position reached."""
    position = first
    while position < last:
        count = make_room(commands, min(BATCH, last - position))
        if count == U(0):
            return position
        position, made = log_and_match(
            commands, book, words, ALL_ONES, position, position + count, outbox, latency
        )
        if not log_reports(reports, outbox, made):
            return position
    return position


@kernel(entry=True)
def read_cycles():
    return cycles()


def cycles_a_ns() -> float:
    """Rate of the cycle counter, against the system's clock."""
    start, count = time.perf_counter_ns(), int(read_cycles())
    time.sleep(0.1)
    return (int(read_cycles()) - count) / (time.perf_counter_ns() - start)


class Result(NamedTuple):
    """Of one file."""

    file: str
    messages: int
    timed: int
    trades: int
    sha256: str
    million_messages_s: float
    million_messages_s_all: list[float]
    latency_ns: dict[str, int]
    timer: str
    latency_timer: str


@contextlib.contextmanager
def logs(records: int, folder: Path) -> Iterator[tuple[Log, Log]]:
    """Both logs, with room for a session in segments made before."""
    size = -(-(records + 4096) * 64 // MIB) * MIB
    with LogDirectory(folder, Limits(ORDERS, LEVELS, INSTRUMENTS)) as directory:
        made = directory.start("bench", size * 4, ahead=1)
        assert directory.preparer is not None
        directory.preparer.stopping.set()  # no further segment is made while the timer runs
        yield made
    shutil.rmtree(folder)


def run(records: np.ndarray, prefill: int, latency: np.ndarray | None) -> tuple[float, int]:
    """Seconds for the messages behind the prefill, and reports made."""
    book = state.allocate(ORDERS, LEVELS, INSTRUMENTS, prefault=True)
    outbox = state.outbox(ORDERS)
    words = records.view(np.uint64)
    with logs(records.size, Path(tempfile.mkdtemp(prefix="matchbox-streams-"))) as (c, r):
        stream(c, r, book, words, U(0), U(prefill), outbox, latency)
        start = time.perf_counter()
        reached = stream(c, r, book, words, U(prefill), U(records.size), outbox, latency)
        seconds = time.perf_counter() - start
    assert int(reached) == records.size, "the log had no room"
    return seconds, int(book.counts[REPORTS])


def measure(path: str, rounds: int) -> Result:
    """All figures of one file; "ferrox" is a stream made here."""
    records, prefill = workload.ferrox() if path == "ferrox" else workload.read(path)
    timed = records.size - prefill
    touched = huge(records.size, records.dtype, prefault=True)
    touched[:] = records
    run(touched[: prefill + 1000], min(prefill, 1000), None)  # compiles
    rates = [timed / run(touched, prefill, None)[0] / 1e6 for _ in range(rounds)]
    latency = np.zeros(records.size, np.uint64)
    run(touched[:1000], 0, latency)
    latency[:] = 0
    run(touched, prefill, latency)
    ns = latency[prefill:] / cycles_a_ns()
    figures = {f"p{p}": round(float(np.percentile(ns, p))) for p in PERCENTILES}
    outputs = Engine(ORDERS, LEVELS, INSTRUMENTS).outputs(records, 0, None)
    return Result(
        Path(path).name,
        records.size,
        timed,
        int((outputs["kind"] == Kind.EXECUTED).sum()),
        sha256(outputs, records["type"]),
        round(statistics.median(rates), 2),
        [round(rate, 2) for rate in rates],
        {**figures, "max": round(float(ns.max()))},
        TIMER,
        LATENCY_TIMER,
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.streams", description=__doc__)
    parser.add_argument("files", nargs="+", metavar="FILE", help='.bin, .bin.zst, or "ferrox"')
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--rounds", type=int, default=5, help="runs whose median is the rate")
    arguments = parser.parse_args()
    for path in arguments.files:
        try:
            result = measure(path, arguments.rounds)
        except MatchboxError as error:
            print(f"bench.streams: error: {error}", file=sys.stderr)
            return int(error.exit)
        if arguments.json:
            print(json.dumps(result._asdict()), flush=True)
            continue
        latency = " ".join(f"{name} {ns}" for name, ns in result.latency_ns.items())
        print(
            f"{result.file}: {result.messages:,} messages, {result.trades:,} trades\n"
            f"  sha256   {result.sha256}\n"
            f"  rate     {result.million_messages_s} million messages/s, median of "
            f"{result.million_messages_s_all} ({result.timer})\n"
            f"  latency  {latency} ns ({result.latency_timer})",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
