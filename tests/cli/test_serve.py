"""`matchbox serve`: where it says that it is, how it stops, and what it leaves."""

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from matchbox.cli.group import run
from matchbox.constants import Exit
from matchbox.embedded import ReferenceEngine
from matchbox.raw_client import RawClient
from matchbox.subscriber import Subscriber
from tests.cli import session
from tests.cli.command import ROOT, Running, environment, matchbox
from tests.publish.wire import free_address

READY = "stop       Ctrl-C"


class Setup(NamedTuple):
    config: Path
    folder: Path
    group: str


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    """A configuration on free addresses."""
    group, config = free_address(), tmp_path / "exchange.toml"
    config.write_text(
        f"""
        [book]
        orders = 1000
        levels = 100
        [log]
        folder = "log"
        segment_mib = 1
        [entry]
        listen = "127.0.0.1:0"
        [publish]
        group = "{group}"
        """
    )
    return Setup(config, tmp_path / "log", group)


def address_of(running: Running) -> tuple[str, int]:
    found = re.search(r"orders +([\d.]+):(\d+)", running.stdout)
    assert found
    return found[1], int(found[2])


def stream_of(running: Running) -> str:
    return running.stdout.partition("serves stream ")[2].split()[0]


def send(running: Running, commands: np.ndarray) -> np.ndarray:
    with RawClient(*address_of(running)) as client:
        client.send(commands)
        client.finish()
        return client.reports


def summary_of(output: str) -> tuple[int, int, str]:
    """Last command_sequence, last report_sequence and digest of a stopped exchange."""
    found = re.search(r"command_sequence (\d+), report_sequence (\d+), digest (\w{32})", output)
    assert found, output
    return int(found[1]), int(found[2]), found[3]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serves_and_stops_in_order(setup: Setup, number: int) -> None:
    commands = session.records(300)
    with (
        Subscriber(setup.group, timeout=30) as subscriber,
        Running("serve", "--config", str(setup.config)) as running,
    ):
        running.wait_for(READY)
        assert f"matchbox subscribe {setup.group}" in running.stdout
        own = send(running, commands)
        running.send_signal(number)
        result = running.end()
        public = np.concatenate(list(subscriber))
    assert result.status == Exit.OK
    assert result.stderr == ""
    expected = ReferenceEngine().submit(commands)
    assert own.tobytes() == expected.tobytes()
    assert len(public) == len(expected)
    assert subscriber.ended == "end of session"
    assert subscriber.summary.gaps == 0
    assert summary_of(result.stdout)[:2] == (301, len(expected)), "genesis is the first command"
    assert f": 300 commands, {len(expected)} reports" in result.stdout


def test_goes_on_where_its_log_ends(setup: Setup) -> None:
    ends, streams = [], set()
    for _ in range(3):
        with Running("serve", "--config", str(setup.config)) as running:
            running.wait_for(READY)
            streams.add(stream_of(running))
            if not ends:
                send(running, session.records(100))
            running.send_signal(signal.SIGTERM)
            ends.append(summary_of(running.end().stdout))
    assert len(set(ends)) == 1
    assert len(streams) == 1, "numbers mean what they meant"


def test_killed_and_started_again(setup: Setup) -> None:
    """kill -9 loses nothing that was answered; the numbers go on."""
    commands = session.records(400)
    with Running("serve", "--config", str(setup.config)) as running:
        running.wait_for(READY)
        before = send(running, commands[:200])
        running.send_signal(signal.SIGKILL)
        assert running.end().status == -signal.SIGKILL
    with Running("serve", "--config", str(setup.config)) as running:
        running.wait_for(READY)
        after = send(running, commands[200:])
        running.send_signal(signal.SIGTERM)
        result = running.end()
    assert np.concatenate([before, after]).tobytes() == ReferenceEngine().submit(commands).tobytes()
    assert summary_of(result.stdout)[:2] == (401, len(before) + len(after))


def test_log_in_use(setup: Setup) -> None:
    with Running("serve", "--config", str(setup.config)) as running:
        running.wait_for(READY)
        result = matchbox("serve", "--config", str(setup.config))
        assert result.status == Exit.LOG_REFUSED
        assert f"in use by process {running.process.pid}" in result.stderr
        assert result.stderr.count("\n") == 1


def test_port_in_use(setup: Setup) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        text = setup.config.read_text().replace("127.0.0.1:0", where)
        setup.config.write_text(text)
        result = matchbox("serve", "--config", str(setup.config))
    assert result.status == Exit.UNAVAILABLE
    assert where in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("before", "after", "status", "told"),
    [
        ("orders = 1000", "orders = 0", Exit.BAD_INPUT, "book.orders: 0: expected"),
        ("levels", "level", Exit.BAD_INPUT, "book.level: unknown key"),
        ('"log"', '"exchange.toml/below"', Exit.UNAVAILABLE, "exchange.toml/below"),
        ("[publish]", '[publish]\ninterface = "nowhere0"', Exit.UNAVAILABLE, "nowhere0"),
    ],
)
def test_wrong_configuration(
    setup: Setup, before: str, after: str, status: Exit, told: str
) -> None:
    text = setup.config.read_text().replace(before, after)
    if "interface" in after:
        text = text.replace(setup.group, "239.255.0.1:5001")
    setup.config.write_text(text)
    result = matchbox("serve", "--config", str(setup.config))
    assert result.status == status
    assert told in result.stderr
    assert result.stderr.startswith("matchbox: error: ")
    assert result.stderr.count("\n") == 1


def test_damaged_log(setup: Setup) -> None:
    """Nothing is changed, and the status says so."""
    with Running("serve", "--config", str(setup.config)) as running:
        running.wait_for(READY)
        send(running, session.records(100))
        running.send_signal(signal.SIGTERM)
        running.end()
    (segment,) = [
        path for path in setup.folder.glob("commands-*.log") if path.stat().st_size > 4096
    ]
    data = bytearray(segment.read_bytes())
    data[4096 + 64 * 20 + 30] ^= 1
    segment.write_bytes(data)
    result = matchbox("serve", "--config", str(setup.config))
    assert result.status == Exit.LOG_REFUSED
    assert segment.name in result.stderr
    assert result.stderr.count("\n") == 1
    assert segment.read_bytes() == data


def test_development_exchange_needs_no_arguments(tmp_path: Path) -> None:
    """Default ports, in a network of its own; the log in the state folder."""
    code = (
        "import sys; from tests import private_network; from matchbox.cli.group import run;"
        "sys.exit(run(['serve']) if private_network.enter() else 77)"
    )
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", code],
        cwd=ROOT,
        env=environment(MATCHBOX_STATE_DIR=str(tmp_path / "state")),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    lines = []
    for line in process.stdout:
        lines.append(line)
        if READY in line:
            process.terminate()
    process.stdout.close()
    status = process.wait(60)
    if status == 77:
        pytest.skip("no network of its own to be had here")
    text = "".join(lines)
    assert status == Exit.OK
    assert "orders     127.0.0.1:9001" in text
    assert "reports    239.1.1.1:5001" in text
    assert (tmp_path / "state" / "development").is_dir()


class Broken:
    """An exchange that stops itself."""

    stream, address, group = "STREAM", "127.0.0.1:9001", "239.1.1.1:5001"
    command_sequence, report_sequence = 1, 0
    halted = "log_failed"
    stopped = False

    def __init__(self, config: object) -> None:
        pass

    def start(self, progress: object) -> None:
        pass

    def stop(self) -> None:
        Broken.stopped = True


def test_halted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Stopped in order, with a status of its own and why."""
    monkeypatch.setattr("matchbox.exchange.Exchange", Broken)
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    try:
        assert run(["serve"]) == Exit.HALTED
    finally:
        for number, handler in zip((signal.SIGTERM, signal.SIGINT), before, strict=True):
            signal.signal(number, handler)
    assert Broken.stopped
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("matchbox: error: the engine stopped itself: log_failed")
