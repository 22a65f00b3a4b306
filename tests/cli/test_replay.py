"""`matchbox replay` and `generate`: files in, numbers out, and one line for every wrong input."""

import json
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from matchbox.constants import Exit
from matchbox.decode import wire
from matchbox.schema import RECORD
from matchbox.subscriber import Subscriber
from tests.cli import session
from tests.cli.command import Running, matchbox
from tests.publish.wire import free_address

Shared = Callable[[str], Path]


def test_in_process(tmp_path: Path) -> None:
    made = session.write(tmp_path)
    result = matchbox("replay", str(made.path))
    assert result.status == Exit.OK
    lines = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
    assert lines["commands"] == "500"
    assert lines["reports"].startswith(f"{len(made.reports)}: ")
    assert lines["trades"] == str(made.trades)
    assert lines["digest"] == made.digest
    assert "commands/s" in lines["time"]


def test_json(tmp_path: Path) -> None:
    made = session.write(tmp_path)
    result = matchbox("replay", str(made.path), "--json")
    values = json.loads(result.stdout)
    assert (values["commands"], values["reports"], values["trades"], values["digest"]) == (
        500,
        len(made.reports),
        made.trades,
        made.digest,
    )
    assert sum(values["kinds"].values()) == len(made.reports)
    assert values["commands_per_second"] > 0
    assert "includes" in values


def test_log_is_kept_and_gone_on_with(tmp_path: Path) -> None:
    made = session.write(tmp_path)
    first = matchbox("replay", str(made.path), "--log", str(tmp_path / "log"), "--json")
    again = matchbox("replay", str(made.path), "--log", str(tmp_path / "log"), "--json")
    assert first.status == again.status == Exit.OK
    assert json.loads(first.stdout)["digest"] != json.loads(again.stdout)["digest"]
    kinds = json.loads(again.stdout)["kinds"]
    assert kinds["rejected"] > json.loads(first.stdout)["kinds"]["rejected"], "ids are live already"
    assert (tmp_path / "log" / "lock").exists()


def test_published(tmp_path: Path) -> None:
    made, group = session.write(tmp_path), free_address()
    with Subscriber(group, timeout=60) as subscriber:
        result = matchbox("replay", str(made.path), "--publish", group)
        reports = np.concatenate(list(subscriber))
    assert result.status == Exit.OK
    assert len(reports) == len(made.reports)
    assert (subscriber.ended, subscriber.summary.gaps) == ("end of session", 0)


def test_paced_by_the_times_in_the_file(tmp_path: Path) -> None:
    made = session.write(tmp_path, count=100)  # a millisecond apart
    result = matchbox("replay", str(made.path), "--speed", "0.5", "--json")
    assert json.loads(result.stdout)["digest"] == made.digest
    assert json.loads(result.stdout)["seconds"] >= 0.198


def test_to_an_exchange(tmp_path: Path) -> None:
    made, config = session.write(tmp_path), tmp_path / "exchange.toml"
    config.write_text(
        f'[log]\nfolder = "log"\nsegment_mib = 1\n[entry]\nlisten = "127.0.0.1:0"\n'
        f'[publish]\ngroup = "{free_address()}"\n'
    )
    with Running("serve", "--config", str(config)) as running:
        running.wait_for("stop       Ctrl-C")
        to = running.stdout.partition("--to ")[2].split()[0]
        result = matchbox("replay", str(made.path), "--to", to, "--json", "--speed", "100000/s")
        running.send_signal(signal.SIGTERM)
        stopped = running.end()
    assert result.status == Exit.OK
    values = json.loads(result.stdout)
    assert (values["commands"], values["reports"], values["trades"]) == (
        500,
        len(made.reports),
        made.trades,
    )
    assert f"report_sequence {len(made.reports)}," in stopped.stdout


def test_limits_of_a_configuration(tmp_path: Path) -> None:
    """A full arena refuses, and says why."""
    made, config = session.write(tmp_path), tmp_path / "small.toml"
    config.write_text("[book]\norders = 5\nlevels = 3\n")
    result = matchbox("replay", str(made.path), "--config", str(config), "--json")
    rejected = json.loads(result.stdout)["kinds"]["rejected"]
    assert result.status == Exit.OK
    assert rejected > 100


def test_parity(shared_data: Shared) -> None:
    path = shared_data("lobster/AAPL_2012-06-21_34200000_37800000_message_50.csv")
    result = matchbox("replay", str(path), "--format", "lobster", "--parity")
    assert result.status == Exit.OK
    assert result.stdout.startswith("4,058 of 4,067 executions hit the recorded order")
    naive = matchbox("replay", str(path), "--parity", "--seed", "none", "--json")
    values = json.loads(naive.stdout)
    assert (values["hits"], values["executions"]) == (4031, 4067)


def test_workload(shared_data: Shared) -> None:
    result = matchbox("replay", str(shared_data("workloads/mix63_s7.bin.zst")), "--json")
    values = json.loads(result.stdout)
    assert (values["commands"], values["trades"]) == (1_000_000, 622_996)
    assert "executing: 1,000,000" in result.stderr, "a long run is announced"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(number: int, tmp_path: Path) -> None:
    """At once and without a word; what was logged is whole and can be gone on with."""
    made, log = session.write(tmp_path), tmp_path / "log"
    with Running("replay", str(made.path), "--speed", "10/s", "--log", str(log)) as running:
        while not list(log.glob("reports-*")):
            time.sleep(0.05)
        time.sleep(0.5)
        running.send_signal(number)
        result = running.end()
    assert result.status == Exit.INTERRUPTED
    assert result.stderr == ""
    again = matchbox("replay", str(made.path), "--log", str(log), "--json")
    assert again.status == Exit.OK
    assert json.loads(again.stdout)["commands"] == 500


# -- wrong input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "options", "status", "told"),
    [
        ("absent", None, [], Exit.BAD_INPUT, "No such file"),
        (".", None, [], Exit.BAD_INPUT, "directory"),
        ("empty", b"", [], Exit.BAD_INPUT, "empty"),
        ("noise", b"\xffnoise", [], Exit.BAD_INPUT, "format not recognised"),
        ("x", b"\xff", ["--format", "nonsense"], Exit.USAGE, "'nonsense' is not one of"),
        (
            "x.csv",
            b"34200.1,1,5,10,100,1\n34200.2,1,six,10,100,1\n",
            [],
            Exit.BAD_INPUT,
            "x.csv:2:",
        ),
        ("cut", b"\x01" + bytes(30), ["--format", "wire"], Exit.BAD_INPUT, "truncated"),
        ("x", b"\x01", ["--speed", "fast"], Exit.USAGE, "expected max, a factor"),
        ("x", b"\x01", ["--to", "a:1", "--log", "x"], Exit.USAGE, "--to sends elsewhere"),
        ("x", b"\x01", ["--orderbook", "x"], Exit.USAGE, "--orderbook goes with --parity"),
    ],
)
def test_wrong_input(
    name: str, content: bytes | None, options: list[str], status: Exit, told: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    result = matchbox("replay", str(path), *options)
    assert result.status == status
    assert result.stdout == ""
    assert result.stderr.startswith("matchbox: error: ")
    assert told in result.stderr
    assert result.stderr.count("\n") == 1


def test_truncated_capture(tmp_path: Path) -> None:
    path = session.write(tmp_path).path
    path.write_bytes(path.read_bytes()[:-10])
    result = matchbox("replay", str(path))
    assert result.status == Exit.BAD_INPUT
    assert "truncated" in result.stderr


@pytest.mark.parametrize(
    ("options", "status", "told"),
    [
        (["--to", "nonsense"], Exit.BAD_INPUT, "expected HOST:PORT"),
        (["--publish", "nonsense"], Exit.BAD_INPUT, "expected GROUP:PORT"),
        (["--log", "session.mbc/below"], Exit.UNAVAILABLE, "session.mbc/below"),
        (["--config", "absent.toml"], Exit.BAD_INPUT, "absent.toml"),
    ],
)
def test_wrong_place(options: list[str], status: Exit, told: str, tmp_path: Path) -> None:
    session.write(tmp_path)
    result = matchbox("replay", "session.mbc", *options, cwd=tmp_path)
    assert result.status == status
    assert told in result.stderr
    assert result.stderr.count("\n") == 1


def test_nobody_listens(tmp_path: Path) -> None:
    made = session.write(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        to = "{}:{}".format(*listener.getsockname())
    result = matchbox("replay", str(made.path), "--to", to)
    assert result.status == Exit.UNAVAILABLE
    assert f"{to}: Connection refused" in result.stderr


def test_recorded_pace_needs_times(tmp_path: Path) -> None:
    path = tmp_path / "client.bin"
    path.write_bytes(wire.encode(session.records(10)))
    result = matchbox("replay", str(path), "--format", "wire", "--speed", "1")
    assert result.status == Exit.BAD_INPUT
    assert "no times" in result.stderr


# -- generate ------------------------------------------------------------------------------------


def test_generate(tmp_path: Path) -> None:
    arguments = ("--commands", "2000", "--seed", "7", "--instruments", "3")
    for name in ("one.mbc", "two.mbc"):
        result = matchbox("generate", str(tmp_path / name), *arguments)
        assert result.status == Exit.OK
        assert "2,000 commands" in result.stdout
    one, two = ((tmp_path / name).read_bytes() for name in ("one.mbc", "two.mbc"))
    assert one == two
    assert len(one) == 64 + 2000 * RECORD.itemsize
    replayed = matchbox("replay", str(tmp_path / "one.mbc"), "--json")
    assert json.loads(replayed.stdout)["commands"] == 2000


@pytest.mark.parametrize(
    ("path", "status"), [("absent/x.mbc", Exit.UNAVAILABLE), (".", Exit.USAGE)]
)
def test_generate_where_it_cannot(path: str, status: Exit, tmp_path: Path) -> None:
    result = matchbox("generate", str(tmp_path / path))
    assert result.status == status
    assert result.stderr.startswith("matchbox: error: ")
    assert result.stderr.count("\n") == 1
