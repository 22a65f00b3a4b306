"""The exchange as a whole: the answers of the reference, before and after any restart."""

import ctypes
import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from matchbox.config import BookConfig, Config, EngineConfig, EntryConfig, LogConfig, PublishConfig
from matchbox.constants import CLIENT_TYPES, CommandType, Exit, Kind
from matchbox.embedded import ReferenceEngine
from matchbox.errors import BadInput, Halted, LogRefused, Unavailable
from matchbox.exchange import Exchange
from matchbox.raw_client import RawClient
from matchbox.schema import OUTPUT, REPORT
from matchbox.subscriber import Subscriber
from matchbox.wal.directory import Limits, LogDirectory
from tests.book.streams import random_records
from tests.publish.wire import free_group

LIMITS = BookConfig(orders=2000, levels=2000, instruments=4)
SESSION = 3000


def configuration(folder: Path, **engine: object) -> Config:
    with free_group() as group:
        pass
    return Config(
        book=LIMITS,
        log=LogConfig(folder=str(folder), segment_mib=1),
        entry=EntryConfig(listen="127.0.0.1:0", connections=4),
        publish=PublishConfig(group=group),
        engine=EngineConfig(**engine),  # type: ignore[arg-type]
    )


def commands(seed: int, count: int = SESSION) -> np.ndarray:
    """Valid and invalid commands of types that a client may send, of no login."""
    records = random_records(np.random.default_rng(seed), count)
    records["account"] = 0
    records["login"][records["type"] == CommandType.ENTER] = 0
    return records[np.isin(records["type"], CLIENT_TYPES)]


def reference(*sessions: np.ndarray) -> ReferenceEngine:
    engine = ReferenceEngine(LIMITS.orders, LIMITS.levels, LIMITS.instruments)
    for session in sessions:
        engine.submit(session)
    return engine


def reports_in(folder: Path) -> np.ndarray:
    """OUTPUT[n] of the report log."""
    with LogDirectory(folder, Limits(*(getattr(LIMITS, name) for name in Limits._fields))) as log:
        runs = [run.words[8 : 8 + 8 * run.count].copy().view(OUTPUT) for run in log.reports]
    return np.concatenate([np.zeros(0, OUTPUT), *runs])


@pytest.mark.parametrize(
    ("threading", "idle"), [*itertools.product(("shared", "dedicated"), ("backoff", "yield"))]
)
def test_every_layout_gives_the_references_answers(
    tmp_path: Path, threading: str, idle: str
) -> None:
    sessions = [commands(seed) for seed in (1, 2)]
    for count in (1, 2):
        config = configuration(tmp_path, threading=threading, idle=idle, ring_slots=64)
        exchange = Exchange(config, sessions[count - 1])
        exchange.start()
        exchange.wait()
        exchange.stop()
        expected = reference(*sessions[:count])
        assert exchange.digest == expected.digest
        assert exchange.report_sequence == expected.report_sequence
        assert not exchange.halted
    logged = reports_in(tmp_path)
    assert np.array_equal(logged["report_sequence"], np.arange(1, expected.report_sequence + 1))


def test_clients_and_subscribers_see_the_same(tmp_path: Path) -> None:
    session = commands(3)
    config = configuration(tmp_path)
    with Exchange(config) as exchange, Subscriber(config.publish.group, timeout=10) as subscriber:
        assert exchange.address is not None
        with RawClient(*exchange.address) as client:
            client.send(session)
            client.finish()
        exchange.stop()
        heard = np.concatenate(list(subscriber))
    assert subscriber.summary.missing == 0
    expected = ReferenceEngine(LIMITS.orders, LIMITS.levels, LIMITS.instruments)
    assert client.reports.tobytes() == expected.submit(session).tobytes()
    assert [r.tobytes() for r in heard] == [public(r) for r in client.reports]


def test_what_a_crash_kept_from_leaving_is_sent(tmp_path: Path) -> None:
    """The command log is whole, the report log is not: its last segment never got to the disk."""
    session = commands(4)
    config = configuration(tmp_path)
    with Exchange(config, session) as exchange:
        exchange.wait()
    expected = reference(session)
    for path in tmp_path.glob("reports-*.log"):
        path.unlink()
    with Subscriber(config.publish.group, timeout=10) as subscriber:
        with Exchange(config, session[:0]) as exchange:
            assert exchange.report_sequence == expected.report_sequence
        sent = np.concatenate(list(subscriber))
    assert sent["report_sequence"].tolist() == list(range(1, expected.report_sequence + 1))
    assert exchange.digest == expected.digest


def test_a_report_log_ahead_of_the_command_log_is_refused(tmp_path: Path) -> None:
    config = configuration(tmp_path)
    for seed in (5, 6):
        with Exchange(config, commands(seed)) as exchange:
            exchange.wait()
    newest = max(tmp_path.glob("commands-*.log"))
    newest.unlink()
    before = {path: path.read_bytes() for path in tmp_path.glob("*.log")}
    with pytest.raises(LogRefused, match="commands that were answered are missing"):
        Exchange(config).start()
    assert before == {path: path.read_bytes() for path in tmp_path.glob("*.log")}


def test_a_log_keeps_its_limits(tmp_path: Path) -> None:
    config = configuration(tmp_path)
    with Exchange(config, commands(7)) as exchange:
        exchange.wait()
    digest = exchange.digest
    other = replace(config, book=BookConfig(orders=5000, levels=5000, instruments=9))
    with Exchange(other, commands(7)[:0]) as exchange:
        pass
    assert exchange.digest == digest


def test_two_exchanges_on_one_log(tmp_path: Path) -> None:
    config = configuration(tmp_path)
    with (
        Exchange(config, commands(8)[:0]),
        pytest.raises(LogRefused, match=f"in use by process {os.getpid()}"),
    ):
        Exchange(config).start()


def test_a_port_in_use_leaves_nothing_open(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = configuration(tmp_path)
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        config = replace(config, entry=EntryConfig(listen=listen))
        descriptors = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            with pytest.raises(Unavailable, match="expected a free port"):
                Exchange(config).start()
        assert len(os.listdir("/proc/self/fd")) <= descriptors + 1
    with Exchange(config):
        pass


def test_types_that_may_not_be_logged_are_refused(tmp_path: Path) -> None:
    session = commands(9)
    session["type"][17] = 200
    with pytest.raises(BadInput, match="record 17: type 200"):
        Exchange(configuration(tmp_path), session).start()


@pytest.mark.parametrize("seed", range(4))
def test_killed_in_mid_session(tmp_path: Path, seed: int) -> None:
    """kill -9 while commands pour in: the log replays, and no report was sent with two contents."""
    rng = np.random.default_rng(seed)
    config = configuration(tmp_path / "log")
    path = tmp_path / "exchange.toml"
    path.write_text(
        f"[book]\norders = {LIMITS.orders}\nlevels = {LIMITS.levels}\ninstruments = 4\n"
        f'[log]\nfolder = "log"\nsegment_mib = 1\n[entry]\nlisten = "127.0.0.1:0"\n'
        f'[publish]\ngroup = "{config.publish.group}"\n'
    )
    seen: dict[int, bytes] = {}
    for _ in range(3):
        serve = subprocess.Popen(
            [sys.executable, "-m", "matchbox", "serve", "--config", str(path)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert serve.stdout is not None
        port = 0
        for line in serve.stdout:
            if line.split()[:1] == ["orders"]:
                port = int(line.rsplit(":", 1)[1])
            if line.split()[:1] == ["stop"]:
                break
        with Subscriber(config.publish.group) as subscriber:
            with socket.create_connection(("127.0.0.1", port)) as client:
                deadline = time.monotonic() + rng.uniform(0.0, 0.15)
                data = b"".join(r.tobytes()[24:] for r in commands(seed) if r["type"] == 1)
                client.setblocking(False)
                while time.monotonic() < deadline:
                    try:
                        client.send(data)
                        client.recv(1 << 20)
                    except BlockingIOError:
                        pass
                    note(subscriber, seen, 0.0)
                serve.send_signal(signal.SIGKILL)
            serve.wait()
            while note(subscriber, seen, 0.2):
                pass
    with Exchange(
        replace(config, log=LogConfig(folder=str(tmp_path / "log"), segment_mib=1)),
        commands(seed)[:0],
    ) as exchange:
        pass
    logged = reports_in(tmp_path / "log")
    assert logged.size == exchange.report_sequence
    for sequence, report in seen.items():
        assert report == public(logged[sequence - 1]), f"seed {seed}: report {sequence}"


def note(subscriber: Subscriber, seen: dict[int, bytes], timeout: float) -> bool:
    """Remember what was published; the same sequence must always say the same."""
    reports = subscriber.receive(timeout)
    if reports is None:
        return False
    for report in reports:
        sequence = int(report["report_sequence"])
        assert seen.setdefault(sequence, report.tobytes()) == report.tobytes()
    return True


def public(output: np.void) -> bytes:
    """What everybody may see of a report, logged or not."""
    report = np.zeros((), REPORT)
    hidden = {
        Kind.ACCEPTED: ["contra"],
        Kind.REJECTED: [
            n for n in REPORT.names or () if n not in ("report_sequence", "kind", "flags")
        ],
    }
    for name in REPORT.names or ():
        if name not in hidden.get(Kind(int(output["kind"])), []):
            report[name] = output[name]
    return report.tobytes()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system, which needs root")
def test_a_full_disk_halts_the_engine_and_loses_nothing(tmp_path: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    place = str(tmp_path).encode()
    if libc.mount(b"none", place, b"tmpfs", 0, b"size=5m") != 0:
        pytest.skip(f"no mount here: {os.strerror(ctypes.get_errno())}")
    try:
        session = commands(11, 200_000)
        exchange = Exchange(configuration(tmp_path), session)
        exchange.start()
        with pytest.raises(Halted, match="log_failed.*No space left"):
            exchange.wait()
        exchange.stop()
        assert libc.mount(b"none", place, b"tmpfs", 32, b"size=64m") == 0  # 32: remount
        with Exchange(configuration(tmp_path), session[:0]) as again:
            pass
        done = again.command_sequence - 1
        assert 10_000 < done < session.size
        assert again.digest == reference(session[:done]).digest
    finally:
        libc.umount2(place, 2)


def test_exit_statuses_are_those_of_errors() -> None:
    assert (BadInput.exit, Unavailable.exit, LogRefused.exit) == (
        Exit.BAD_INPUT,
        Exit.UNAVAILABLE,
        Exit.LOG_REFUSED,
    )
