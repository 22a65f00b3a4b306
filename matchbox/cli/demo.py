"""`matchbox demo`: the whole path at work, and four things that must be so."""

from typing import TYPE_CHECKING

import click

from matchbox.cli.terminal import step
from matchbox.constants import Exit

if TYPE_CHECKING:
    from rich.table import Table

    from matchbox.demo import Level, Outcome

LEVELS_SHOWN = 5
TRADES_SHOWN = 5


@click.command(short_help="Show the whole path at work.")
def demo() -> int:
    """Run an exchange on loopback, trade a seeded session on it, and check every report.

    Everything is temporary and on free ports. Ends with status 1 if the engine, its reports and
    the readable reference do not agree.

    \b
    Examples:
      matchbox demo
      NO_COLOR=1 matchbox demo | tee demo.txt
    """
    from matchbox import demo as logic

    with step("starting") as tell:
        outcome = logic.run(tell)
    show(outcome)
    return Exit.OK if outcome.good else Exit.CHECK_FAILED


def show(outcome: "Outcome") -> None:
    from rich.columns import Columns
    from rich.console import Console

    console = Console(highlight=False)
    with console.capture() as text:  # rich would end the process where nobody reads
        console.print(Columns([ladder(outcome), trades(outcome)], padding=(0, 4)))
        for check in outcome.checks:
            mark, style = ("ok", "green") if check.good else ("NOT SO", "bold red")
            console.print(f"  [{style}]{mark}[/]  {check.text}")
        stages = outcome.seconds.items()
        times = ", ".join(f"{name.partition(' (')[0]} {s:.1f} s" for name, s in stages)
        console.print(f"{outcome.commands:,} commands; {times}", soft_wrap=True)
        verdict = "all agree" if outcome.good else "THEY DO NOT AGREE"
        console.print(f"[bold]{verdict}[/]")
    click.echo(text.get(), nl=False)


def ladder(outcome: "Outcome") -> "Table":
    """Asks above bids, the best ones in the middle."""
    from rich.table import Table

    table = Table("orders", "bid", "price", "ask", "orders", title="book of instrument 1", box=None)
    for column in table.columns:
        column.justify = "right"
    for level in reversed(outcome.asks[:LEVELS_SHOWN]):
        table.add_row("", "", *cells(level, "red"))
    for level in outcome.bids[:LEVELS_SHOWN]:
        table.add_row(*reversed(cells(level, "green")), "", "")
    return table


def cells(level: "Level", style: str) -> list[str]:
    return [f"[{style}]{level.price}[/]", str(level.quantity), str(level.orders)]


def trades(outcome: "Outcome") -> "Table":
    from rich.table import Table

    from matchbox.printer import SIDES

    title = f"last of {len(outcome.trades):,} trades"
    table = Table("report", "price", "quantity", "aggressor", title=title, box=None)
    for column in table.columns[:3]:
        column.justify = "right"
    for trade in outcome.trades[-TRADES_SHOWN:]:
        table.add_row(
            str(trade["report_sequence"]),
            str(trade["price"]),
            str(trade["quantity"]),
            SIDES[int(trade["side"])],
        )
    return table
