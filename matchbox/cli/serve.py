"""`matchbox serve`: an exchange until it is told to stop."""

import os
import signal
import threading
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from matchbox import config as configuration
from matchbox.cli.terminal import StatusLine, Tell, loading, shown_path, step
from matchbox.cli.version import DISTRIBUTION, package_version
from matchbox.errors import Halted

if TYPE_CHECKING:
    from matchbox.exchange import Exchange

STATUS_INTERVAL_S = 0.5
LOOK_INTERVAL_S = 0.1
RECOVERY_INTERVAL_S = 2.0


@click.command(short_help="Run an exchange.")
@click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="TOML file, see docs/CLI.md. Default: a development exchange on loopback.",
)
def serve(path: Path | None) -> None:
    """Run an exchange until SIGTERM or Ctrl-C: order entry over TCP, reports over UDP.

    Without a file it is a development exchange: loopback only, one instrument, its log in the
    state folder (MATCHBOX_STATE_DIR, else XDG_STATE_HOME/matchbox, else ~/.local/state/matchbox).
    Started again, it goes on where its log ends.

    \b
    Examples:
      matchbox serve
      matchbox serve --config exchange.toml
      MATCHBOX_STATE_DIR=/tmp/try matchbox serve
    """
    config = configuration.load(path) if path else configuration.Config()
    stopping = threading.Event()
    catch_signals(stopping)
    with loading() as tell:
        from matchbox.exchange import Exchange

        exchange = Exchange(config)
        exchange.start(Recovering(tell))
    recovered = exchange.command_sequence, exchange.report_sequence
    greet(exchange, config)
    start = time.monotonic()
    try:
        watch(exchange, stopping)
    finally:
        with step("stopping"):
            exchange.stop()
    if exchange.halted:
        raise Halted(f"the engine stopped itself: {exchange.halted}: see docs/CLI.md, Halts")
    say_goodbye(exchange, recovered, time.monotonic() - start)


class Recovering:
    """Tells how far the replay of a long log is."""

    def __init__(self, tell: Tell) -> None:
        self._tell, self._start, self._told = tell, time.monotonic(), 0.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if not done or now - self._told < RECOVERY_INTERVAL_S:
            return
        self._told = now
        rate = done / (now - self._start)
        left = (total - done) / rate
        self._tell(f"recovering: {done:,} of {total:,} commands, {rate:,.0f}/s, {left:.0f} s left")


def catch_signals(stopping: threading.Event) -> None:
    """SIGTERM and SIGINT ask for an orderly stop; a second one ends at once."""

    def ask(signum: int, frame: FrameType | None) -> None:
        if stopping.is_set():
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)
        stopping.set()

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)


def greet(exchange: "Exchange", config: configuration.Config) -> None:
    """Say where everything is and what to do next. On stdout: scripts wait for it."""
    where = f" --interface {config.interface}" if config.interface not in (None, "lo") else ""
    lines = [
        f"matchbox {package_version(DISTRIBUTION)} serves stream {exchange.stream}",
        f"  log        {shown_path(config.log_folder)}, "
        f"{exchange.command_sequence:,} commands and {exchange.report_sequence:,} reports so far",
        f"  orders     {exchange.address}",
        f"  reports    {exchange.group}",
        f"  listen     matchbox subscribe {exchange.group}{where}",
        f"  send       matchbox replay FILE --to {exchange.address}",
        "  stop       Ctrl-C or SIGTERM",
    ]
    click.echo("\n".join(lines))


def watch(exchange: "Exchange", stopping: threading.Event) -> None:
    """Wait for the end, with a line of numbers on a terminal."""
    with StatusLine() as line:
        last_time, last_count = time.monotonic(), exchange.command_sequence
        while not stopping.wait(LOOK_INTERVAL_S) and not exchange.halted:
            now = time.monotonic()
            if now - last_time < STATUS_INTERVAL_S:
                continue
            count = exchange.command_sequence
            rate = (count - last_count) / (now - last_time)
            last_time, last_count = now, count
            line.show(f"{count:,} commands, {exchange.report_sequence:,} reports, {rate:,.0f}/s")


def say_goodbye(exchange: "Exchange", recovered: tuple[int, int], seconds: float) -> None:
    commands = exchange.command_sequence - recovered[0]
    reports = exchange.report_sequence - recovered[1]
    click.echo(f"stopped after {seconds:,.1f} s: {commands:,} commands, {reports:,} reports")
    click.echo(
        f"command_sequence {exchange.command_sequence}, "
        f"report_sequence {exchange.report_sequence}, digest {exchange.digest}"
    )
