"""The `matchbox` command: its subcommands, and how each of them ends.

A subcommand is imported when it is called, so `--help` answers at once and what only listens never
loads a compiler. Every way to end has an exit status of `constants.Exit`, and an error is one line
on stderr.
"""

import contextlib
import os
import signal
import sys
from importlib import import_module
from types import FrameType
from typing import NoReturn

import click

from matchbox.constants import Exit
from matchbox.errors import MatchboxError
from matchbox.meanings import meanings

SUBCOMMANDS = {
    "serve": "Run an exchange: order entry over TCP, reports over UDP.",
    "replay": "Run a file of commands through an engine, or send it to an exchange.",
    "subscribe": "Print the reports of a stream and what is missing in it.",
    "demo": "Show the whole path at work on this machine.",
    "generate": "Write a session of seeded commands to a capture file.",
    "version": "Print the version; --verbose: of everything that matters.",
}

EXAMPLES = """\
Examples:
  matchbox demo                            see it work
  matchbox serve                           an exchange on loopback
  matchbox subscribe 239.1.1.1:5001        listen to it
  matchbox generate session.mbc            make commands
  matchbox replay session.mbc --to 127.0.0.1:9001
"""


class LazyGroup(click.Group):
    """Subcommands by name; each lives in `matchbox.cli.NAME` as `NAME`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SUBCOMMANDS:
            return None
        command = getattr(import_module(f"matchbox.cli.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command), cmd_name
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(SUBCOMMANDS.items()))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write("\n" + EXAMPLES + "\nExit statuses:\n")
        for status, text in meanings(Exit).items():
            formatter.write(f"  {status:>3}  {text}\n")


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
def group() -> None:
    """A price-time matching engine: commands in, sequenced reports out, all of it in a log."""


def fail(text: str, status: int) -> int:
    """One line on stderr, if that can be written."""
    with contextlib.suppress(OSError):
        click.echo(f"matchbox: error: {' '.join(text.split())}", err=True)
    return status


def abandon_output() -> int:
    """Nobody reads stdout any more: let the interpreter flush what is left into nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return Exit.BROKEN_PIPE


def run(arguments: list[str] | None = None) -> int:
    """Run a command line; returns its exit status."""
    try:
        given = sys.argv[1:] if arguments is None else arguments
        with group.make_context("matchbox", list(given)) as context:
            result = group.invoke(context)
        if sys.stdout:  # None if it was closed before we began
            sys.stdout.flush()
        return result if isinstance(result, int) else Exit.OK
    except click.exceptions.Exit as ending:
        return ending.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return Exit.USAGE
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "matchbox"
        return fail(f"{error.format_message()} (see {where} --help)", Exit.USAGE)
    except click.ClickException as error:
        return fail(error.format_message(), Exit.USAGE)
    except (KeyboardInterrupt, click.Abort):
        return Exit.INTERRUPTED
    except BrokenPipeError:
        return abandon_output()
    except MatchboxError as error:
        return trace_or(error, str(error), error.exit)
    except MemoryError as error:
        return trace_or(
            error, "not enough memory: expected fewer orders or levels", Exit.UNAVAILABLE
        )
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return trace_or(error, f"{where}{error.strerror or error}", Exit.UNAVAILABLE)
    except Exception as error:
        text = f"this is a bug in matchbox: {type(error).__name__}: {error}"
        return trace_or(error, f"{text} (MATCHBOX_TRACEBACK=1 shows where)", Exit.BUG)


def trace_or(error: Exception, text: str, status: int) -> int:
    if os.environ.get("MATCHBOX_TRACEBACK"):
        raise error
    return fail(text, status)


def interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> NoReturn:
    """Entry point of the `matchbox` command. SIGTERM ends a command as Ctrl-C does."""
    signal.signal(signal.SIGTERM, interrupt)
    sys.exit(run())
