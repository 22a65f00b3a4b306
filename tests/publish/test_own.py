"""Who gets which report, and what becomes of clients who do not read theirs."""

import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchbox import connections as table
from matchbox.clients import counters, open_descriptors, statuses
from matchbox.connections import DEADLINE, Ending
from matchbox.constants import Kind
from matchbox.order_entry import OrderEntry
from matchbox.schema import REPORT_BYTES
from tests.decode import desk as desks
from tests.decode.venue import (
    LAYOUTS,
    PATIENCE_S,
    Venue,
    anonymous,
    assert_echoes,
    commands,
    echoes,
    receive,
    receive_all,
    until,
    venue,
    wire,
)

layouts = pytest.mark.parametrize("layout", LAYOUTS)


def naming(login: int, count: int, seed: int = 1) -> np.ndarray:
    """Commands of which each makes a second report, executed, that names an order of `login`."""
    made = commands(count, seed, types=(1,))
    made["price"] = login
    return made


def log_in(v: Venue) -> tuple[socket.socket, int]:
    """A new client and its login."""
    client, done = v.connect(), v.commands
    client.sendall(wire(commands(1)))
    receive(client, 1)
    return client, int(v.records["checksum"][done])


def executions(made: np.ndarray) -> np.ndarray:
    """The second reports of `naming`'s commands, without sequences."""
    reports = echoes(made)
    reports["price"], reports["kind"] = made["price"], Kind.EXECUTED
    return reports


def backlogs(connections: table.Connections) -> list[int]:
    return [row.backlog for row in statuses(connections)]


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


@layouts
def test_a_report_goes_to_the_sender_and_to_the_owner_of_the_order(layout: str) -> None:
    with venue(layout) as v:
        (resting, login), (other, _) = log_in(v), log_in(v)
        made = naming(login, 50)
        other.sendall(wire(made))
        both = receive(other, 100)
        owned = receive(resting, 50)
        assert (owned == both[1::2]).all()
        assert (anonymous(owned) == executions(made)).all()
        # An order of one's own: once.
        resting.sendall(wire(made))
        assert (np.diff(receive(resting, 100)["report_sequence"].astype(np.int64)) == 1).all()
        for client in (resting, other):
            client.shutdown(socket.SHUT_WR)
            assert len(receive_all(client)) == 0
            client.close()


@layouts
def test_a_login_of_the_past_gets_nothing(layout: str) -> None:
    """Neither one of an earlier run of the log, nor one whose slot has somebody else."""
    with venue(layout, count=2, last_login=1000) as v:
        client, gone = log_in(v)
        client.close()
        until(lambda: v.count(Ending.FINISHED) == 1, "it is closed")
        newcomer, login = log_in(v)
        assert login % 2 == gone % 2 and login != gone
        sender, _ = log_in(v)
        for past in (gone, gone - 2, 3, 1000, login + 2):
            sender.sendall(wire(naming(past, 5)))
            assert len(receive(sender, 10)) == 10
        sender.sendall(wire(naming(login, 1)))
        assert len(receive(sender, 2)) == 2
        assert receive(newcomer, 1)["price"] == login
        newcomer.shutdown(socket.SHUT_WR)
        assert len(receive_all(newcomer)) == 0
        newcomer.close()
        sender.close()


@layouts
def test_a_client_that_reads_late_is_made_to_wait_and_misses_nothing(layout: str) -> None:
    made = commands(150_000, types=(1,))
    with venue(layout, out_bytes=1 << 16) as v, v.connect(receive_bytes=4096) as client:
        sender = threading.Thread(target=client.sendall, args=(wire(made),))
        sender.start()
        until(lambda: max(backlogs(v.connections)) >= 1 << 14, "its intake is held")
        client.settimeout(PATIENCE_S)
        assert_echoes(receive(client, len(made)), made)
        sender.join()
        assert v.counters["own_blocked"] > 0
        assert v.counters["own_discarded_bytes"] == 0


@layouts
def test_a_slow_reader_with_executions_is_dropped_and_nobody_else_notices(layout: str) -> None:
    with venue(layout, out_bytes=1 << 16) as v:
        (slow, login), (other, _) = log_in(v), log_in(v)
        made = naming(login, 200_000)
        sender = threading.Thread(target=other.sendall, args=(wire(made),))
        sender.start()
        reports = receive(other, 2 * len(made))
        sender.join()
        assert (anonymous(reports[::2])["contra"] == made["order_id"]).all()
        until(lambda: v.count(Ending.SLOW) == 1, "the slow client is closed")
        assert v.counters["own_discarded_bytes"] > 0
        (row,) = [row for row in statuses(v.connections) if row.login == login]
        assert (row.ending, row.descriptor) == (Ending.SLOW, -1)
        # What it gets before the end is without a hole; only the last report may be cut.
        received = bytearray()
        try:
            while part := slow.recv(1 << 16):
                received += part
        except ConnectionResetError:
            pass
        whole = len(received) // REPORT_BYTES * REPORT_BYTES
        got = np.frombuffer(bytes(received[:whole]), reports.dtype)
        assert (got == reports[1::2][: len(got)]).all()
        slow.close()
        other.close()


@layouts
def test_blocked_clients_do_not_hold_up_others(layout: str) -> None:
    """Many that never read, each with as much as fits, and one that trades."""
    with venue(layout, count=16, out_bytes=1 << 14) as v:
        lazy = [v.connect(receive_bytes=4096) for _ in range(12)]
        made = wire(commands(200_000, types=(1,)))
        for client in lazy:
            client.setblocking(False)

        def push(client: socket.socket, sent: list[int]) -> None:
            try:
                sent[0] += client.send(made[sent[0] :])
            except BlockingIOError:
                pass

        progress = [[0] for _ in lazy]

        def all_held() -> bool:
            for client, sent in zip(lazy, progress, strict=True):
                push(client, sent)
            return sum(backlog >= 1 << 12 for backlog in backlogs(v.connections)) == len(lazy)

        until(all_held, "all are held")
        with v.connect() as client:
            busy = commands(20_000, seed=7)
            sender = threading.Thread(target=client.sendall, args=(wire(busy),))
            sender.start()
            assert_echoes(receive(client, len(busy)), busy)
            sender.join()
        assert sum(row.ending == Ending.NONE for row in statuses(v.connections)) >= len(lazy)
        for client in lazy:
            reset(client)
        until(lambda: len(open_descriptors(v.connections)) == 0, "all are closed")


@layouts
def test_resets_with_reports_on_the_way(layout: str) -> None:
    with venue(layout, out_bytes=1 << 14) as v:
        for round in range(50):
            client = v.connect(receive_bytes=4096)
            client.setblocking(False)
            try:
                client.send(wire(commands(5000, seed=round)))
            except BlockingIOError:
                pass
            reset(client)
        until(lambda: len(open_descriptors(v.connections)) == 0, "all are closed")
        with v.connect() as client:
            client.sendall(wire(commands(10)))
            assert_echoes(receive(client, 10), commands(10))


@pytest.fixture(scope="module", params=LAYOUTS)
def running(request: pytest.FixtureRequest) -> Iterator[Venue]:
    with venue(request.param, out_bytes=192) as v:
        yield v


@settings(max_examples=40)
@given(count=st.integers(1, 300), seed=st.integers(0, 1000), pause=st.integers(0, 3))
def test_an_out_buffer_of_four_reports_is_enough(
    running: Venue, count: int, seed: int, pause: int
) -> None:
    """Wraps, partial sends and holding, at every phase of the buffer."""
    made = commands(count, seed)
    with running.connect() as client:
        client.sendall(wire(made))
        time.sleep(pause / 1000)
        client.shutdown(socket.SHUT_WR)
        assert_echoes(receive_all(client), made)


@contextmanager
def by_hand(out_bytes: int = 1 << 16) -> Iterator[tuple[desks.Desk, OrderEntry]]:
    """Order entry whose steps are made by the test."""
    connections = table.allocate(4, out_bytes)
    entry = OrderEntry(("127.0.0.1", 0), connections)
    entry.start()
    try:
        yield desks.desk(connections), entry
    finally:
        entry.stop()
        entry.close(linger_s=0.05)


def steps(desk: desks.Desk, count: int) -> None:
    for _ in range(count):
        desks.decode_once(desk, 1)
        desks.match_once(desk)


def test_drained_tells_when_all_has_been_sent() -> None:
    with by_hand() as (desk, entry):
        assert desks.is_drained(desk)
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(entry.address)
        client.setblocking(False)
        made, sent = wire(commands(200_000, types=(1,))), 0
        while max(backlogs(desk.connections), default=0) < 1 << 14:
            try:
                sent += client.send(made[sent : sent + (1 << 16)])
            except BlockingIOError:
                pass
            steps(desk, 3)
        assert not desks.is_drained(desk)
        desk.cells[int(desks.STOP)] = 1  # from here on nothing is decoded
        while desks.match_once(desk):
            pass
        sends = counters(desk.connections)["own_sends"]
        for _ in range(20):
            desks.match_once(desk)
        # A blocked socket is left alone, but for what its own acknowledgements make room for.
        assert counters(desk.connections)["own_sends"] < sends + 10
        executed = int(desk.cells[int(desks.REPORTS)])
        client.setblocking(True)
        client.settimeout(PATIENCE_S)
        received = []

        def read() -> None:
            received.append(receive(client, executed))

        reader = threading.Thread(target=read)
        reader.start()
        until(lambda: desks.match_once(desk) == 0 and desks.is_drained(desk), "all has been sent")
        reader.join()
        assert len(received[0]) == executed
        client.close()


def test_an_ended_client_that_never_reads_is_cut_off() -> None:
    with by_hand() as (desk, entry):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(entry.address)
        client.setblocking(False)
        made, sent = wire(commands(200_000, types=(1,))), 0
        while max(backlogs(desk.connections), default=0) == 0:
            try:
                sent += client.send(made[sent : sent + 4000])
            except BlockingIOError:
                pass
            steps(desk, 3)
        client.shutdown(socket.SHUT_WR)
        until(
            lambda: steps(desk, 3) or desks.is_drained(desk) or is_ended(desk),
            "its input has ended",
        )
        assert not desks.is_drained(desk)
        desk.connections.intake[int(DEADLINE)] = 1
        until(lambda: steps(desk, 3) or not open_descriptors(desk.connections), "it is closed")
        assert counters(desk.connections)["overdue"] == 1
        client.close()


def is_ended(desk: desks.Desk) -> bool:
    return statuses(desk.connections)[0].ending != Ending.NONE


def test_a_refused_client_that_does_not_close_is_closed() -> None:
    with by_hand() as (desk, entry):
        with socket.create_connection(entry.address, timeout=PATIENCE_S) as client:
            client.sendall(b"\x00")
            until(
                lambda: steps(desk, 3) or (desks.is_drained(desk) and is_ended(desk)),
                "it is refused",
            )
            steps(desk, 3)
            assert len(open_descriptors(desk.connections)) == 1
            assert len(receive_all(client)) == 1
            desk.connections.intake[int(DEADLINE)] = 1
            steps(desk, 3)
            assert open_descriptors(desk.connections) == []


@layouts
def test_stop_delivers_what_was_decoded_and_resets_only_those_who_lack_reports(layout: str) -> None:
    v = Venue(layout, slots=1 << 10, count=8, out_bytes=1 << 16)
    v.start()
    good, bad = v.connect(), v.connect(receive_bytes=4096)
    made = commands(1000)
    good.sendall(wire(made))
    until(lambda: v.commands == len(made), "all commands have been matched")
    bad.setblocking(False)
    flood, sent = wire(commands(200_000, types=(1,))), 0
    while max(backlogs(v.connections)) < 1 << 14:
        try:
            sent += bad.send(flood[sent:])
        except BlockingIOError:
            pass
    before = len(os.listdir("/proc/self/fd"))
    assert v.stop() == 1
    assert_echoes(receive_all(good), made)
    bad.setblocking(True)
    with pytest.raises(ConnectionResetError):
        while bad.recv(1 << 16):
            pass
    # Two connections, two epolls, listener and its pair of wakers with their selectors.
    assert len(os.listdir("/proc/self/fd")) <= before - 7
    good.close()
    bad.close()


def test_the_out_buffer_goes_round_while_it_is_never_empty() -> None:
    """A client that reads just enough to stay: both ends of the buffer wrap, often."""
    with by_hand(out_bytes=1 << 14) as (desk, entry):
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(entry.address)
        slow.sendall(wire(commands(1)))
        until(lambda: steps(desk, 1) or int(desk.cells[int(desks.KEPT)]) == 1, "it is known")
        login = int(desk.kept[0]) & 0xFFFFFFFF
        # A small send buffer, or the kernel would take the whole out buffer at once.
        with socket.socket(fileno=os.dup(statuses(desk.connections)[0].descriptor)) as own_end:
            own_end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        received, sent = bytearray(receive(slow, 1).tobytes()), 0
        slow.setblocking(False)
        with socket.create_connection(entry.address, timeout=PATIENCE_S) as other:
            while len(received) < 20 << 14:
                other.sendall(wire(naming(login, 20, seed=sent)))
                sent += 20
                until(lambda: steps(desk, 1) or desk.cells[int(desks.COMMANDS)] > sent, "matched")  # noqa: B023
                other.recv(1 << 16)
                while statuses(desk.connections)[0].backlog > 3 << 12:
                    try:
                        received += slow.recv(1 << 12)
                    except BlockingIOError:
                        pass
                    steps(desk, 1)
            assert counters(desk.connections)["own_discarded_bytes"] == 0
            while len(received) < (sent + 1) * REPORT_BYTES:
                try:
                    received += slow.recv(1 << 16)
                except BlockingIOError:
                    pass
                steps(desk, 1)
        reports = np.frombuffer(bytes(received), echoes(commands(1)).dtype)[1:]
        assert (np.diff(reports["report_sequence"].astype(np.int64)) == 2).all()
        assert (reports["price"] == login).all()
        slow.close()
