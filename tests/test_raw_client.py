"""The raw client against a peer that does as the protocol says, and against worse ones."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from matchbox.constants import CommandType, Kind, Reason
from matchbox.decode.wire import encode
from matchbox.errors import BadInput, Unavailable
from matchbox.raw_client import RawClient
from matchbox.schema import COMMAND, REPORT

Peer = Callable[[socket.socket], None]


@contextmanager
def peer(serve: Peer) -> Iterator[tuple[str, int]]:
    """Serve one connection in a thread."""

    def accept() -> None:
        connection, _ = listener.accept()
        with connection:
            serve(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield listener.getsockname()
        thread.join(30)
        assert not thread.is_alive()


def commands(*types: CommandType) -> np.ndarray:
    made = np.zeros(len(types), COMMAND)
    made["type"] = types
    made["order_id"] = np.arange(1, len(types) + 1)
    return made


def reports(count: int, **fields: int) -> bytes:
    made = np.zeros(count, REPORT)
    made["report_sequence"] = np.arange(1, count + 1)
    for name, value in fields.items():
        made[name] = value
    return made.tobytes()


def read_all(connection: socket.socket) -> bytes:
    data = b""
    while part := connection.recv(1 << 16):
        data += part
    return data


def test_sends_and_collects_until_the_end() -> None:
    received = []

    def serve(connection: socket.socket) -> None:
        received.append(read_all(connection))
        for at in range(0, 48 * 10, 31):  # pieces that cut reports
            connection.sendall(reports(10)[at : at + 31])

    sent = commands(*[CommandType.ENTER, CommandType.CANCEL] * 50)
    told: list[int] = []
    with peer(serve) as (host, port), RawClient(host, port) as client:
        client.send(sent, advance=told.append)
        client.finish()
        assert client.report_count == 10
        assert client.reports.tobytes() == reports(10)
    assert received == [encode(sent)]
    assert sum(told) == 100


def test_neither_side_waits_for_the_other_to_read() -> None:
    """The peer answers each command before it reads the next, with more than any buffer holds."""

    def serve(connection: socket.socket) -> None:
        while connection.recv(40, socket.MSG_WAITALL):
            connection.sendall(answer)

    answer = reports(100)
    counts: list[int] = []
    with peer(serve) as (host, port):
        with RawClient(host, port, on_reports=lambda part: counts.append(len(part))) as client:
            client.send(commands(*[CommandType.ENTER] * 5_000))
            client.finish()
            assert client.report_count == sum(counts) == 500_000


def test_pace() -> None:
    """Commands leave when they are due, not before."""
    arrivals: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        while part := connection.recv(1 << 16):
            arrivals.append(part)

    due_ns = np.array([0, 0, 200_000_000], np.int64)
    with peer(serve) as (host, port), RawClient(host, port) as client:
        client.send(commands(*[CommandType.ENTER] * 3), due_ns)
        client.finish()
    assert len(arrivals) >= 2
    assert len(arrivals[-1]) == 40


def test_refusal_is_told() -> None:
    def serve(connection: socket.socket) -> None:
        refusal = np.zeros(1, REPORT)
        refusal["kind"], refusal["reason"] = Kind.REJECTED, Reason.BAD_TYPE
        refusal["contra"], refusal["quantity"] = 77, 40
        connection.sendall(refusal.tobytes())
        connection.shutdown(socket.SHUT_WR)
        read_all(connection)

    with peer(serve) as (host, port), RawClient(host, port) as client:
        with pytest.raises(BadInput, match="bad type: type 77 at byte 40"):
            client.send(commands(*[CommandType.ENTER] * 10))
            client.finish()


def test_exchange_that_goes_away() -> None:
    with peer(lambda connection: None) as (host, port), RawClient(host, port) as client:
        with pytest.raises(Unavailable, match=f"{host}:{port}"):
            client.send(commands(*[CommandType.ENTER] * 200_000))


def test_exchange_that_falls_silent() -> None:
    silent = threading.Event()
    with peer(lambda connection: silent.wait(20) and None) as (host, port):
        with RawClient(host, port) as client:
            client.send(commands(CommandType.ENTER))
            with pytest.raises(Unavailable, match="no further report within 0.1 s"):
                client.finish(timeout_s=0.1)
        silent.set()


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
    with pytest.raises(Unavailable, match="refused.*expected an exchange"):
        RawClient(host, port)
