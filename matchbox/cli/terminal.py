"""What the commands share to talk to a terminal, or to none.

Results go to stdout, everything about the run to stderr. Progress is drawn on terminals only
(rich knows NO_COLOR and TERM=dumb); elsewhere each step is one plain line, so a log stays readable.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import click

Advance = Callable[[int], None]
Tell = Callable[[str], None]

LONG_COUNT, LONG_BYTES = 500_000, 1 << 24
"""A shorter run is over before anyone has read its progress."""


def is_drawable() -> bool:
    """Whether stderr is a terminal on which lines can be redrawn."""
    if not sys.stderr:  # it was closed before we began
        return False
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def say(text: str = "") -> None:
    """A line about the run."""
    click.echo(text, err=True)


@contextmanager
def step(text: str) -> Iterator[Tell]:
    """Something that cannot say how far it is; yields `tell(text)` for what else there is to say.

    Elsewhere than on a terminal only that is printed.
    """
    if not is_drawable():
        yield say
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as line:
        task = line.add_task(text, total=None)
        yield lambda text: line.update(task, description=text)


@contextmanager
def loading() -> Iterator[Tell]:
    """Around what loads the compiler and the kernels; says so if they must be compiled first."""
    with step("loading") as tell:
        from matchbox.warm import is_cold

        if is_cold():
            tell("compiling kernels, once; this takes about a minute")
        yield tell


@contextmanager
def progress(text: str, total: int, unit: str = "") -> Iterator[Advance]:
    """A bar with rate and time left; yields `advance(count)`. `unit` is "bytes" or nothing."""
    long = LONG_BYTES if unit else LONG_COUNT
    if not is_drawable() or total < long:
        if total >= long and not unit:
            say(f"{text}: {total:,}")
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text(f"{speed:,.0f}/s" if speed else "")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(text, total=total)
        yield lambda count: bar.advance(task, count)


class StatusLine:
    """One line on the terminal that is drawn again and again; nothing elsewhere."""

    def __init__(self) -> None:
        self._drawable = is_drawable()

    def show(self, text: str) -> None:
        if self._drawable:
            click.echo(f"\r\x1b[K{text}", err=True, nl=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.show("")


def shown_path(path: Path) -> str:
    """A path as a user would write it."""
    try:
        home = Path.home()
    except RuntimeError:  # a user without one
        return str(path)
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
