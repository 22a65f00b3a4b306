"""The whole path at work on one machine, and the proof that it is right. Plain Python.

An exchange serves on loopback, a client sends a seeded session to it over TCP, a subscriber listens
to the group it publishes to. Then the log is read back and executed by the readable reference book,
and four things are compared. The client sends a batch when the subscriber has seen the reports of
the one before, so that the smallest receive buffer is large enough.
"""

import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from matchbox.book.digest import ORDER
from matchbox.config import BookConfig, Config, EntryConfig, LogConfig, PublishConfig
from matchbox.constants import Kind, ReportFlag, Side
from matchbox.errors import Unavailable
from matchbox.raw_client import RawClient
from matchbox.schema import RECORD, REPORT, joined, reports_of
from matchbox.subscriber import Subscriber, Summary

if TYPE_CHECKING:
    from matchbox.exchange import Exchange

COMMANDS = 20_000
SEED = 7
BATCH = 500
PATIENCE_S = 10.0
INSTRUMENT = 1
LIMITS = BookConfig(orders=1 << 16, levels=1 << 12, instruments=16)


class Level(NamedTuple):
    price: int
    quantity: int
    orders: int


class Check(NamedTuple):
    text: str
    good: bool


@dataclass
class Outcome:
    """What a demo found."""

    seconds: dict[str, float] = field(default_factory=dict)  # by stage, in order
    commands: int = 0
    stream: str = ""
    summary: Summary | None = None
    trades: np.ndarray = field(default_factory=lambda: np.empty(0, REPORT))  # REPORT, all of them
    bids: list[Level] = field(default_factory=list)  # best first
    asks: list[Level] = field(default_factory=list)
    digest: str = ""
    checks: list[Check] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return all(check.good for check in self.checks)


@contextmanager
def stage(outcome: Outcome, name: str, tell: Callable[[str], None]) -> Iterator[None]:
    tell(name)
    start = time.perf_counter()
    yield
    outcome.seconds[name] = time.perf_counter() - start


def run(tell: Callable[[str], None]) -> Outcome:
    """Run the demo; `tell` is called with the name of each stage as it begins.

    Raises MatchboxError if there is no running it here.
    """
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="matchbox-demo-") as folder:
        config = configuration(Path(folder))
        with stage(outcome, "loading packages", tell):
            from matchbox.exchange import Exchange
            from matchbox.generate import session
            from matchbox.warm import is_cold
        kernels = "compiling kernels (once, about a minute)" if is_cold() else "loading kernels"
        with stage(outcome, kernels, tell):
            exchange = Exchange(config)
            exchange.start()
        with stage(outcome, "running the session", tell):
            try:
                own, public, outcome.summary = converse(exchange, session(COMMANDS, SEED))
            finally:
                exchange.stop()
            outcome.stream, outcome.digest = exchange.stream, exchange.digest
        with stage(outcome, "executing the log with the reference", tell):
            check(outcome, own, public, logged_commands(Path(folder)))
    return outcome


def configuration(folder: Path) -> Config:
    """Free ports, small limits, everything under `folder`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    group = f"239.255.{os.getpid() >> 8 & 0xFF}.{os.getpid() & 0xFF}:{port}"
    return Config(
        book=LIMITS,
        log=LogConfig(folder=str(folder), segment_mib=4),
        entry=EntryConfig(listen="127.0.0.1:0"),
        publish=PublishConfig(group=group),
    )


def converse(exchange: "Exchange", commands: np.ndarray) -> tuple[np.ndarray, np.ndarray, Summary]:
    """Send COMMAND[n] and listen. Returns own and public reports and what the subscriber saw."""
    assert exchange.address is not None
    host, port = exchange.address
    own, public = list[np.ndarray](), list[np.ndarray]()
    answered = 0

    def take(reports: np.ndarray) -> None:
        nonlocal answered
        own.append(reports)
        answered += int(np.count_nonzero(reports["flags"] & ReportFlag.LAST))

    with (
        Subscriber(str(exchange.group), timeout=PATIENCE_S) as subscriber,
        RawClient(host, port, take) as client,
    ):
        for start in range(0, len(commands), BATCH):
            batch = commands[start : start + BATCH]
            client.send(batch)
            deadline = time.monotonic() + PATIENCE_S
            while answered < start + len(batch) or subscriber.summary.last_sequence < last(own):
                client.wait(0.0)
                reports = subscriber.receive(0.001)
                if reports is not None:
                    public.append(reports)
                if time.monotonic() > deadline:
                    raise Unavailable(f"demo: no answer within {PATIENCE_S:g} s: is loopback up?")
        client.finish()
        exchange.stop()
        public.extend(subscriber)
        return together(own), together(public), subscriber.summary


def together(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.empty(0, REPORT), *parts])


def last(parts: list[np.ndarray]) -> int:
    return int(parts[-1]["report_sequence"][-1]) if parts else 0


def logged_commands(folder: Path) -> np.ndarray:
    """RECORD array of all commands in a log, genesis left out."""
    from matchbox.wal.directory import Limits, LogDirectory

    limits = Limits(LIMITS.orders, LIMITS.levels, LIMITS.instruments)
    with LogDirectory(folder, limits) as log:
        runs = [run.words[8 : 8 + 8 * run.count].copy().view(RECORD) for run in log.commands]
    return joined(np.empty(0, RECORD), *runs)[1:]


def check(outcome: Outcome, own: np.ndarray, public: np.ndarray, records: np.ndarray) -> None:
    """Execute the log with the reference, and compare."""
    from matchbox.book.digest import digest
    from matchbox.book.reference import ReferenceBook

    book = ReferenceBook(LIMITS.orders, LIMITS.levels, LIMITS.instruments)
    expected = reports_of(book.execute(records))
    summary = outcome.summary
    assert summary is not None
    outcome.commands = len(records)
    outcome.trades = public[public["kind"] == Kind.EXECUTED]
    orders, _ = book.rows()
    outcome.bids, outcome.asks = ladder(orders, Side.BUY), ladder(orders, Side.SELL)
    outcome.checks = [
        Check(f"gaps: {summary.missing}", not summary.missing and not summary.gaps),
        Check(
            f"the subscriber has {summary.reports:,} of {len(expected):,} reports",
            summary.reports == len(expected),
        ),
        Check("the client's own reports are the reference's", equal(own, expected)),
        Check(
            "the public reports are the reference's",
            equal(unmasked(public), unmasked(expected)),
        ),
        Check(
            f"digest {outcome.digest} is the reference's",
            outcome.digest == digest(*book.rows(), book.report_sequence),
        ),
    ]


def unmasked(reports: np.ndarray) -> np.ndarray:
    """The reports that the public sees whole."""
    return reports[(reports["kind"] != Kind.ACCEPTED) & (reports["kind"] != Kind.REJECTED)]


def equal(some: np.ndarray, others: np.ndarray) -> bool:
    return some.tobytes() == others.tobytes()


def ladder(orders: np.ndarray, side: Side) -> list[Level]:
    """Price levels of one side, best first, of digest.ORDER rows in their order."""
    assert orders.dtype == ORDER
    rows = orders[(orders["instrument"] == INSTRUMENT) & (orders["side"] == side)]
    levels: list[Level] = []
    for price, leaves in zip(rows["price"].tolist(), rows["leaves"].tolist(), strict=True):
        if levels and levels[-1].price == price:
            levels[-1] = Level(price, levels[-1].quantity + leaves, levels[-1].orders + 1)
        else:
            levels.append(Level(price, leaves, 1))
    return levels
