"""`matchbox subscribe`: the stream as lines of words, or of JSON."""

import json
import sys
from collections.abc import Callable

import click
import numpy as np

from matchbox import printer
from matchbox.cli.terminal import say
from matchbox.constants import Exit
from matchbox.subscriber import Subscriber, Summary


@click.command(short_help="Print the reports of a stream.")
@click.argument("address", metavar="GROUP:PORT")
@click.option(
    "--interface", help="Interface to join the group on, by name or address. Default: lo."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, one a report.")
@click.option("--count", type=click.IntRange(1), help="Stop after this many reports.")
@click.option("--timeout", type=float, help="Stop after so many seconds without a datagram.")
@click.option(
    "--from", "first", type=click.IntRange(1), help="First report expected; later ones are a gap."
)
def subscribe(
    address: str,
    interface: str | None,
    as_json: bool,
    count: int | None,
    timeout: float | None,
    first: int | None,
) -> int:
    """Print the reports that GROUP:PORT carries, and what is missing in them.

    Ends with the stream, with Ctrl-C, after --count reports or after --timeout quiet seconds, and
    says on stderr what it has seen. Exit status 1 if reports are missing, or if fewer than --count
    came in time.

    \b
    Examples:
      matchbox subscribe 239.1.1.1:5001
      matchbox subscribe 239.1.1.1:5001 --json | jq 'select(.kind == "executed")'
      matchbox subscribe 239.1.1.1:5001 --interface eth0 --count 100
      matchbox subscribe 127.0.0.1:5001 --timeout 10
    """
    line = json_line if as_json else printer.human
    with Subscriber(address, interface, first, timeout, on_notice=notice) as subscriber:
        say(f"listening at {address}")
        try:
            print_reports(subscriber, line, count)
        except KeyboardInterrupt:
            pass
        summary = subscriber.summary
    say(summary_line(summary))
    incomplete = count is not None and summary.reports < count and summary.ended == "timeout"
    return Exit.CHECK_FAILED if summary.missing or incomplete else Exit.OK


def notice(text: str) -> None:
    say(f"matchbox: {text}")


def json_line(report: np.void) -> str:
    return json.dumps(printer.record(report))


def print_reports(
    subscriber: Subscriber, line: Callable[[np.void], str], count: int | None
) -> None:
    """Print until the stream ends, is quiet for too long, or `count` reports are out."""
    write = sys.stdout.write
    left = count
    for reports in subscriber:
        for report in reports[:left]:
            write(line(report) + "\n")
        sys.stdout.flush()
        if left is not None:
            left -= len(reports[:left])
            if left == 0:
                return


def summary_line(summary: Summary) -> str:
    """What was seen, in one line that always has the same words."""
    if not summary.datagrams:
        return "0 reports, nothing was heard"
    parts = [f"{summary.reports:,} reports"]
    if summary.reports:
        parts[0] += f" {summary.first_sequence}..{summary.last_sequence}"
    parts += [f"stream {summary.stream}", f"gaps: {summary.gaps}"]
    if summary.gaps:
        parts.append(f"{summary.missing:,} missing, {summary.late:,} came late")
    for name in ("duplicates", "malformed", "foreign", "stream_changes"):
        number = getattr(summary, name)
        if number:
            parts.append(f"{number:,} {name.replace('_', ' ')}")
    if summary.ended:
        parts.append(summary.ended)
    return ", ".join(parts)
