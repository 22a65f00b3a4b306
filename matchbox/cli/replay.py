"""`matchbox replay`: a file of commands, through an engine here or to an exchange elsewhere."""

import json
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from matchbox import config as configuration
from matchbox.cli.pace import Speed, SpeedType
from matchbox.cli.terminal import LONG_BYTES, loading, progress
from matchbox.config import Config, parse_listener
from matchbox.constants import Kind
from matchbox.decode.files import FORMATS
from matchbox.decode.lobster_commands import SEEDS
from matchbox.errors import BadInput, Halted
from matchbox.printer import KINDS
from matchbox.raw_client import RawClient
from matchbox.schema import OUTPUT

LOOK_INTERVAL_S = 0.02
PACE_INTERVAL_S = 0.001


@dataclass
class Result:
    """What a replay did."""

    commands: int
    reports: int = 0
    kinds: dict[str, int] = field(default_factory=dict)  # reports by kind
    seconds: float = 0.0
    includes: str = ""  # what the seconds are of
    digest: str = ""

    @property
    def trades(self) -> int:
        return self.kinds.get(KINDS[Kind.EXECUTED], 0)

    @property
    def rate(self) -> float:
        return self.commands / self.seconds if self.seconds else 0.0

    def count(self, kinds: np.ndarray) -> None:
        """Add reports of these kinds, u8[n]."""
        self.reports += len(kinds)
        for code, number in enumerate(np.bincount(kinds).tolist()):
            if number:
                name = str(KINDS.get(code, code))
                self.kinds[name] = self.kinds.get(name, 0) + number


@click.command(short_help="Run a file of commands.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), default="auto", help="Of the file."
)
@click.option(
    "--seed",
    type=click.Choice(SEEDS),
    default="all",
    help="lobster: which older orders to enter first. Default: all that can be known.",
)
@click.option(
    "--date", metavar="YYYY-MM-DD", help="lobster: day of the file. Default: in its name."
)
@click.option("--speed", type=SpeedType(), default="max", help="Default: max.")
@click.option("--to", metavar="HOST:PORT", help="Send to an exchange's raw port over TCP.")
@click.option("--parity", is_flag=True, help="lobster: compare executions with the recorded ones.")
@click.option(
    "--orderbook",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="lobster, with --parity: also compare the best prices with the exchange's.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--log",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keep the log here, and go on with it.",
)
@click.option("--publish", metavar="GROUP:PORT", help="Publish reports there, on loopback.")
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Limits, threads.",
)
def replay(
    file: Path,
    format_: str,
    seed: str,
    date: str | None,
    speed: Speed,
    to: str | None,
    parity: bool,
    orderbook: Path | None,
    as_json: bool,
    log: Path | None,
    publish: str | None,
    config_path: Path | None,
) -> None:
    """Run the commands of FILE: a capture, a LOBSTER message CSV, a workload, or a client's bytes,
    each of them packed with zstd or not.

    Without --to the whole path runs in this process, from the file to the datagrams, with a log in
    a temporary folder. With --to the commands go to an exchange, as a client would send them.

    --speed: max, a factor of the recorded pace such as 1 or 2.5, or a rate such as 100000/s.

    \b
    Examples:
      matchbox replay session.mbc
      matchbox replay session.mbc --to 127.0.0.1:9001 --speed 50000/s
      matchbox replay AAPL_2012-06-21_34200000_37800000_message_50.csv --parity
      matchbox replay mix63_s7.bin.zst --json
      matchbox replay session.mbc --speed 1 --publish 239.1.1.1:5001
    """
    if to and (parity or log or publish or config_path):
        raise click.UsageError("--to sends elsewhere: no --parity, --log, --publish or --config")
    if orderbook and not parity:
        raise click.UsageError("--orderbook goes with --parity")
    if parity:
        return show_parity(file, seed, date, orderbook, as_json)
    records = read(file, format_, seed, date)
    if to:
        result = send(records, to, speed)
    else:
        base = configuration.load(config_path) if config_path else Config()
        with in_process(base, log, publish) as config:
            result = execute(records, config, speed)
    show(result, as_json)


def read(file: Path, format_: str, seed: str, date: str | None) -> np.ndarray:
    """RECORD[n] of a file."""
    from matchbox.decode import files

    size = file.stat().st_size if file.is_file() else 0
    with byte_progress(f"reading {file.name}", 2 * size) as told:
        return files.read(file, format_, seed=seed, date=date, progress=told)


@contextmanager
def byte_progress(text: str, total: int) -> Iterator[Callable[[int, int], None]]:
    """A bar that is told how far it is."""
    last = 0
    with progress(text, total, "bytes") as advance:

        def told(done: int, _: int) -> None:
            nonlocal last
            advance(done - last)
            last = done

        yield told


# -- to an exchange ------------------------------------------------------------------------------


def send(records: np.ndarray, to: str, speed: Speed) -> Result:
    """Send and collect every report."""
    try:
        host, port = parse_listener(to)
    except ValueError:
        raise BadInput(f"--to {to!r}: expected HOST:PORT with an IPv4 address") from None
    result = Result(len(records), includes="from the first byte sent to the last report received")
    due_ns = speed.due_ns(records["time_ns"])
    with RawClient(host, port, lambda reports: result.count(reports["kind"])) as client:
        start = time.perf_counter()
        with progress(f"sending to {to}", len(records)) as advance:
            client.send(records, due_ns, advance)
        client.finish()
        result.seconds = time.perf_counter() - start
    return result


# -- here ----------------------------------------------------------------------------------------


@contextmanager
def in_process(base: Config, log: Path | None, publish: str | None) -> Iterator[Config]:
    """A configuration whose log and datagrams go where they were asked to, or nowhere.

    Without `publish` a socket that nobody reads takes the datagrams: they are made and sent all the
    same.
    """
    with (
        tempfile.TemporaryDirectory(prefix="matchbox-replay-") as folder,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as nobody,
    ):
        nobody.bind(("127.0.0.1", 0))
        group = publish or "{}:{}".format(*nobody.getsockname())
        yield replace(
            base,
            log=replace(base.log, folder=str((log or Path(folder)).absolute())),
            publish=replace(base.publish, group=group),
        )


def execute(records: np.ndarray, config: Config, speed: Speed) -> Result:
    """Run records through the whole path: ring, log, book, report log, datagrams."""
    with loading():
        from matchbox.exchange import Exchange

        due_ns = speed.due_ns(records["time_ns"])
        exchange = Exchange(config, records, paced=True)
        exchange.start()
    first = exchange.report_sequence
    result = Result(
        len(records), includes="from file order to datagrams, both logs and all reports"
    )
    try:
        with progress("executing", len(records)) as advance:
            start = time.perf_counter()
            let_go(exchange, len(records), due_ns, advance)
            exchange.wait()
            result.seconds = time.perf_counter() - start
    finally:
        exchange.stop()
    result.digest = exchange.digest
    for kinds in logged_kinds(config, first):
        result.count(kinds)
    return result


def let_go(exchange: Any, count: int, due_ns: np.ndarray | None, advance: Any) -> None:
    """Let records be executed when they are due, until all are."""
    exchange.allow(count if due_ns is None else 0)
    start, told = time.monotonic_ns(), 0
    while exchange.executed < count and not exchange.halted:
        if due_ns is not None:
            elapsed = time.monotonic_ns() - start
            exchange.allow(int(np.searchsorted(due_ns, elapsed, "right")))
        advance(exchange.executed - told)
        told = exchange.executed
        time.sleep(LOOK_INTERVAL_S if due_ns is None else PACE_INTERVAL_S)
    if exchange.halted:
        raise Halted(f"the engine stopped itself: {exchange.halted}")


def logged_kinds(config: Config, first: int) -> Iterator[np.ndarray]:
    """Kinds of the reports behind sequence `first`, u8[n] a segment, from the report log."""
    from matchbox.wal.directory import Limits, LogDirectory

    limits = Limits(config.book.orders, config.book.levels, config.book.instruments)
    with LogDirectory(config.log_folder, limits) as directory:
        for run in directory.reports:
            outputs = run.words[8 : 8 + 8 * run.count].view(OUTPUT)
            yield outputs["kind"][outputs["report_sequence"] > first].copy()


# -- what came of it -----------------------------------------------------------------------------


def show(result: Result, as_json: bool) -> None:
    if as_json:
        values = asdict(result) | {
            "trades": result.trades,
            "commands_per_second": round(result.rate),
        }
        click.echo(json.dumps({name: value for name, value in values.items() if value != ""}))
        return
    made = [(result.kinds[name], name) for name in KINDS.values() if name in result.kinds]
    kinds = ", ".join(f"{number:,} {name}" for number, name in made)
    click.echo(f"commands  {result.commands:,}")
    click.echo(f"reports   {result.reports:,}: {kinds}")
    click.echo(f"trades    {result.trades:,}")
    click.echo(
        f"time      {result.seconds:.3f} s, {result.rate:,.0f} commands/s, {result.includes}"
    )
    if result.digest:
        click.echo(f"digest    {result.digest}")


def show_parity(
    file: Path, seed: str, date: str | None, orderbook: Path | None, as_json: bool
) -> None:
    """How many recorded executions hit the very order that the exchange's did."""
    with loading():
        from matchbox import parity
        from matchbox.embedded import Engine

        engine = Engine()
    with byte_progress(f"replaying {file.name}", LONG_BYTES) as told:
        score = parity.score(file, seed, orderbook, date=date, engine=engine, progress=told)
    if as_json:
        click.echo(score.to_json())
        return
    click.echo(score.text)
    for miss in score.misses:
        click.echo(
            f"  line {miss.line}: {miss.why}: {miss.quantity} @ {miss.price} of {miss.order_id}"
        )
