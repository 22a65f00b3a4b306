"""The command as a whole: help, errors, exit statuses, and where the output goes."""

import subprocess

import click
import pytest

from matchbox.cli import group as module
from matchbox.cli.group import SUBCOMMANDS, group, run
from matchbox.constants import Exit
from matchbox.errors import BadInput, Halted, LogRefused, MatchboxError, Unavailable
from tests.cli.command import MATCHBOX, environment, matchbox


def fails_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Make `matchbox fail` raise."""

    @click.command()
    def fail() -> None:
        raise error

    monkeypatch.setattr(module.LazyGroup, "get_command", lambda *_: fail)


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == Exit.OK
    text = capsys.readouterr().out
    for name in SUBCOMMANDS:
        assert f"\n  {name} " in text
    for status in Exit:
        assert f"\n  {status.value:>3}  " in text


@pytest.mark.parametrize("name", list(SUBCOMMANDS))
def test_help_of_subcommands(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == Exit.OK
    text = capsys.readouterr().out
    assert f"matchbox {name}" in text.partition("Examples:")[2], "help shows examples"
    assert max(map(len, text.splitlines())) <= 100


def test_options_have_help() -> None:
    for name in SUBCOMMANDS:
        command = group.get_command(click.Context(group), name)
        assert command
        for parameter in command.params:
            assert not isinstance(parameter, click.Option) or parameter.help, parameter.name


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["--nonsense"], "--nonsense"),
        (["subscribe"], "GROUP:PORT"),
        (["subscribe", "1.2.3.4:5", "--count", "0"], "--count"),
        (["version", "extra"], "extra"),
    ],
)
def test_usage(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == Exit.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert told in captured.err
    assert captured.err.startswith("matchbox: error: ")
    assert captured.err.count("\n") == 1


def test_no_arguments_show_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == Exit.USAGE
    assert "Examples:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (MatchboxError("they differ"), Exit.CHECK_FAILED, "they differ"),
        (BadInput("x.csv: row 3: expected a price"), Exit.BAD_INPUT, "x.csv: row 3"),
        (Unavailable("127.0.0.1:1: in use"), Exit.UNAVAILABLE, "127.0.0.1:1: in use"),
        (LogRefused("damaged\nat 5"), Exit.LOG_REFUSED, "damaged at 5"),
        (Halted("code 2"), Exit.HALTED, "code 2"),
        (PermissionError(13, "Permission denied", "/x"), Exit.UNAVAILABLE, "/x: Permission denied"),
        (MemoryError(), Exit.UNAVAILABLE, "not enough memory"),
        (ZeroDivisionError("x"), Exit.BUG, "bug in matchbox: ZeroDivisionError: x (MATCHBOX_TRACE"),
    ],
)
def test_errors_are_one_line(
    error: Exception,
    status: Exit,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fails_with(monkeypatch, error)
    assert run(["fail"]) == status
    text = capsys.readouterr().err
    assert text.startswith("matchbox: error: ")
    assert told in text
    assert text.count("\n") == 1
    monkeypatch.setenv("MATCHBOX_TRACEBACK", "1")
    with pytest.raises(type(error)):
        run(["fail"])


def test_interrupt_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fails_with(monkeypatch, KeyboardInterrupt())
    assert run(["fail"]) == Exit.INTERRUPTED
    assert capsys.readouterr() == ("", "")


def test_reader_that_goes_away_is_no_error() -> None:
    """As in `matchbox … | head -1`."""
    process = subprocess.Popen(
        [*MATCHBOX, "version", "--verbose"],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout and process.stderr
    process.stdout.close()
    told = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == Exit.BROKEN_PIPE
    assert told == ""


@pytest.mark.parametrize(
    ("redirection", "status", "told"),
    [
        ("version > /dev/full", Exit.UNAVAILABLE, "No space left on device"),
        ("version >&-", Exit.OK, ""),
        ("replay no_such_file 2>&-", Exit.BAD_INPUT, ""),
        ("replay no_such_file 2> /dev/full", Exit.BAD_INPUT, ""),
    ],
)
def test_output_that_cannot_be_written(redirection: str, status: Exit, told: str) -> None:
    command = " ".join([*MATCHBOX, redirection])
    done = subprocess.run(
        ["bash", "-c", command], env=environment(), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == status
    assert told in done.stderr
    assert done.stderr.count("\n") == (1 if told else 0)


def test_version() -> None:
    brief, verbose = matchbox("version"), matchbox("version", "--verbose")
    assert brief.status == verbose.status == Exit.OK
    assert brief.stdout.startswith("matchbox 0.")
    assert brief.stdout.count("\n") == 1
    names = [line.split()[0] for line in verbose.stdout.splitlines()]
    assert {"matchbox", "python", "numba", "numpy", "system", "processor"} <= set(names)
