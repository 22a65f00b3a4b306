"""`matchbox subscribe`: lines for people, lines for programs, and a summary of what was seen."""

import json
import signal
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from matchbox import printer
from matchbox.constants import Exit
from tests.cli.command import Result, Running, matchbox
from tests.publish.wire import datagram, free_address, mold, outbox, reports_of

REPORTS = reports_of(outbox(100))
END = 0xFFFF


@contextmanager
def subscribed(*options: str) -> Iterator[tuple[Running, socket.socket]]:
    """A subscriber at a free address, and a socket to send to it."""
    address = free_address()
    host, port = address.split(":")
    with (
        Running("subscribe", address, *options) as running,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
    ):
        running.wait_for("listening at")
        sock.connect((host, int(port)))
        yield running, sock


def send(sock: socket.socket, reports: np.ndarray) -> None:
    for message in mold(reports):
        sock.send(message)


def send_end(sock: socket.socket, sequence: int) -> None:
    sock.send(b"TEST".ljust(10) + struct.pack(">QH", sequence, END))


def last_line(result: Result) -> str:
    return result.stderr.splitlines()[-1]


def test_lines_until_the_stream_ends() -> None:
    with subscribed() as (running, sock):
        send(sock, REPORTS)
        send_end(sock, 101)
        result = running.end()
    assert result.status == Exit.OK
    assert result.stdout.splitlines() == [printer.human(report) for report in REPORTS]
    assert last_line(result) == "100 reports 1..100, stream TEST, gaps: 0, end of session"


def test_json_lines() -> None:
    with subscribed("--json") as (running, sock):
        send(sock, REPORTS)
        send_end(sock, 101)
        result = running.end()
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        printer.record(report) for report in REPORTS
    ]


def test_gap_is_told_at_once_and_is_the_status() -> None:
    with subscribed() as (running, sock):
        send(sock, REPORTS[:10])
        send(sock, REPORTS[20:30])
        running.wait_for("gap: reports 11..20 are missing (10)")
        send_end(sock, 31)
        result = running.end()
    assert result.status == Exit.CHECK_FAILED
    assert "20 reports 1..30, stream TEST, gaps: 1, 10 missing, 0 came late" in last_line(result)


def test_filled_gap_is_no_failure() -> None:
    with subscribed() as (running, sock):
        send(sock, REPORTS[:10])
        send(sock, REPORTS[20:30])
        running.wait_for("gap:")
        send(sock, REPORTS[10:20])
        send_end(sock, 31)
        result = running.end()
    assert result.status == Exit.OK
    assert "gaps: 1, 0 missing, 10 came late" in last_line(result)


def test_first_report_expected() -> None:
    with subscribed("--from", "1") as (running, sock):
        send(sock, REPORTS[5:])
        send_end(sock, 101)
        result = running.end()
    assert result.status == Exit.CHECK_FAILED
    assert "5 missing" in last_line(result)


def test_count() -> None:
    with subscribed("--count", "7") as (running, sock):
        send(sock, REPORTS)
        result = running.end()
    assert result.status == Exit.OK
    assert len(result.stdout.splitlines()) == 7


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_with_a_summary(number: int) -> None:
    with subscribed() as (running, sock):
        send(sock, REPORTS[:5])
        running.wait_for(printer.human(REPORTS[4]))
        running.send_signal(number)
        result = running.end()
    assert result.status == Exit.OK
    assert last_line(result) == "5 reports 1..5, stream TEST, gaps: 0"


def test_silence() -> None:
    result = matchbox("subscribe", free_address(), "--timeout", "0.2")
    assert result.status == Exit.OK
    assert last_line(result) == "0 reports, nothing was heard"
    result = matchbox("subscribe", free_address(), "--timeout", "0.2", "--count", "1")
    assert result.status == Exit.CHECK_FAILED, "it was to print one"


def test_noise_is_told_and_survived() -> None:
    with subscribed() as (running, sock):
        sock.send(b"noise")
        sock.send(datagram(b"TEST", 1, 3, b"short"))
        running.wait_for("malformed datagram from")
        send(sock, REPORTS[:3])
        send_end(sock, 4)
        result = running.end()
    assert result.status == Exit.OK
    assert "2 malformed" in last_line(result)


def test_reader_that_goes_away() -> None:
    """As in `matchbox subscribe … | head -1`."""
    with subscribed() as (running, sock):
        assert running.process.stdout
        running.process.stdout.close()
        deadline = time.monotonic() + 60
        while running.process.poll() is None and time.monotonic() < deadline:
            send(sock, REPORTS[:1])
            time.sleep(0.05)
        assert running.process.wait(1) == Exit.BROKEN_PIPE
        assert running.process.stderr
        assert "Traceback" not in running.process.stderr.read().decode()


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["nonsense"], Exit.BAD_INPUT, "expected GROUP:PORT"),
        (["239.1.1.1:0"], Exit.BAD_INPUT, "port '0'"),
        (["239.1.1.1:5001", "--interface", "nowhere0"], Exit.UNAVAILABLE, "nowhere0"),
        (["203.0.113.7:5001"], Exit.UNAVAILABLE, "203.0.113.7:5001"),
        (["239.1.1.1:5001", "--timeout", "-1"], Exit.BAD_INPUT, "timeout -1.0"),
    ],
)
def test_wrong_arguments(arguments: list[str], status: Exit, told: str) -> None:
    result = matchbox("subscribe", *arguments)
    assert result.status == status
    assert result.stdout == ""
    assert result.stderr.startswith("matchbox: error: ")
    assert told in result.stderr
    assert result.stderr.count("\n") == 1
