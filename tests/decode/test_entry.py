"""Bytes to records: every way a stream can be cut, ended or wrong, on both thread layouts."""

import itertools
import random
import socket
import struct
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchbox.clients import statuses
from matchbox.connections import Ending, allocate, free
from matchbox.constants import CommandType, Kind, Reason, ReportFlag
from matchbox.errors import BadInput
from matchbox.schema import COMMAND
from tests.decode.venue import (
    LAYOUTS,
    TYPES,
    Venue,
    as_decoded,
    assert_echoes,
    commands,
    receive,
    receive_all,
    until,
    venue,
    wire,
)

layouts = pytest.mark.parametrize("layout", LAYOUTS)

BAD_TYPES = sorted(set(range(256)) - set(TYPES))


def body_of(records: np.ndarray) -> np.ndarray:
    """The COMMAND part of RECORDs."""
    rows = records.view(np.uint8).reshape(-1, 64)[:, 24:]
    return np.ascontiguousarray(rows).view(COMMAND).reshape(-1)


def send_in_parts(client: socket.socket, data: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(data)]
    for first, last in itertools.pairwise(edges):
        client.sendall(data[first:last])
        time.sleep(0)


def assert_refused(report: np.ndarray, reason: Reason, type: int, at: int) -> None:
    """The last report of a refused connection."""
    assert report["report_sequence"] == report["reference"] == report["price"] == 0
    assert report["instrument"] == report["side"] == 0
    assert (report["kind"], report["reason"]) == (Kind.REJECTED, reason)
    assert report["flags"] == ReportFlag.LAST
    assert (report["contra"], report["quantity"]) == (type, at)


@layouts
def test_records_hold_the_commands_and_their_stamps(layout: str) -> None:
    made = commands(300)
    before = time.time_ns()
    with venue(layout) as v, v.connect() as client:
        client.sendall(wire(made))
        assert_echoes(receive(client, len(made)), made)
        records = v.records
    assert (records["command_sequence"] == 0).all()
    assert (records["account"] == 0).all()
    login = int(records["checksum"][0])
    assert login == 8  # generation 1, slot 0
    assert (records["checksum"] == login).all()
    assert (np.diff(records["time_ns"].astype(np.int64)) >= 0).all()
    assert before <= records["time_ns"][0] <= records["time_ns"][-1] <= time.time_ns()
    expected = as_decoded(made)
    expected["login"][expected["type"] == CommandType.ENTER] = login
    assert (body_of(records) == expected).all()


def test_time_does_not_go_back_behind_the_log() -> None:
    future = time.time_ns() + 10**18
    with venue(last_time_ns=future) as v, v.connect() as client:
        client.sendall(wire(commands(3)))
        receive(client, 3)
        assert v.records["time_ns"].tolist() == [future] * 3


@pytest.mark.parametrize("type", TYPES)
def test_one_byte_at_a_time(type: int) -> None:
    made = commands(3, types=(type,))
    with venue() as v, v.connect() as client:
        for byte in wire(made):
            client.sendall(bytes([byte]))
        assert_echoes(receive(client, len(made)), made)


@pytest.fixture(scope="module", params=LAYOUTS)
def running(request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]
    """A venue that many examples share, with a ring smaller than a burst."""
    with venue(request.param, slots=16) as v:
        yield v


@settings(max_examples=60)
@given(data=st.data())
def test_any_split_gives_the_same(running: Venue, data: st.DataObject) -> None:
    made = commands(data.draw(st.integers(1, 120)), data.draw(st.integers(0, 1000)))
    sent = wire(made)
    cuts = data.draw(st.lists(st.integers(0, len(sent)), max_size=12))
    with running.connect() as client:
        send_in_parts(client, sent, cuts)
        client.shutdown(socket.SHUT_WR)
        assert_echoes(receive_all(client), made)


@settings(max_examples=60)
@given(data=st.data())
def test_a_bad_type_ends_the_connection_after_all_before_it(
    running: Venue, data: st.DataObject
) -> None:
    made = commands(data.draw(st.integers(0, 60)), data.draw(st.integers(0, 1000)))
    bad = data.draw(st.sampled_from(BAD_TYPES))
    valid = wire(made)
    sent = valid + bytes([bad]) + data.draw(st.binary(max_size=200))
    cuts = data.draw(st.lists(st.integers(0, len(sent)), max_size=6))
    with running.connect() as client:
        try:
            send_in_parts(client, sent, cuts)
        except (BrokenPipeError, ConnectionResetError):
            pytest.fail("closed before the client did")
        reports = receive_all(client)
    assert_echoes(reports[:-1], made)
    assert_refused(reports[-1], Reason.BAD_TYPE, bad, len(valid))


@settings(max_examples=40)
@given(data=st.data())
def test_an_end_within_a_message(running: Venue, data: st.DataObject) -> None:
    made = commands(data.draw(st.integers(1, 60)), data.draw(st.integers(0, 1000)))
    whole, last = wire(made[:-1]), wire(made[-1:])
    with running.connect() as client:
        client.sendall(whole + last[: data.draw(st.integers(1, len(last) - 1))])
        client.shutdown(socket.SHUT_WR)
        reports = receive_all(client)
    assert_echoes(reports[:-1], made[:-1])
    assert_refused(reports[-1], Reason.TRUNCATED, int(made["type"][-1]), len(whole))


@pytest.mark.parametrize("bad", BAD_TYPES)
def test_every_bad_type_byte_alone_is_refused(running: Venue, bad: int) -> None:
    with running.connect() as client:
        client.sendall(bytes([bad]))
        (report,) = receive_all(client)
    assert_refused(report, Reason.BAD_TYPE, bad, 0)


@layouts
def test_half_closed_client_gets_all_its_reports(layout: str) -> None:
    made = commands(5000)
    with venue(layout, slots=64) as v, v.connect() as client:
        client.sendall(wire(made))
        client.shutdown(socket.SHUT_WR)
        assert_echoes(receive_all(client), made)
        client.close()
        until(lambda: v.count(Ending.FINISHED) == 1, "the connection is closed")


@layouts
def test_closing_at_once_executes_everything(layout: str) -> None:
    made = commands(500)
    with venue(layout, slots=64) as v:
        with v.connect() as client:
            client.sendall(wire(made))
            client.shutdown(socket.SHUT_WR)
        until(lambda: v.commands == len(made), "all commands have been matched")
        until(lambda: not [s for s in statuses(v.connections) if s.descriptor >= 0], "it is closed")


@layouts
def test_refused_client_may_go_on_sending(layout: str) -> None:
    """Its bytes are discarded, so that no reset overtakes the reject."""
    with venue(layout) as v, v.connect() as client:
        client.sendall(wire(commands(10)) + b"\x00" + bytes(1 << 20))
        client.sendall(bytes(1 << 20))
        reports = receive_all(client)
        assert len(reports) == 11
        assert_refused(reports[-1], Reason.BAD_TYPE, 0, len(wire(commands(10))))
        assert v.commands == 10


@layouts
def test_reset_keeps_what_was_sent_and_frees_the_slot(layout: str) -> None:
    made = commands(100)
    with venue(layout, count=1) as v:
        for round in range(1, 20):
            client = v.connect()
            client.sendall(wire(made))
            until(lambda: v.commands == round * len(made), "the commands have been matched")  # noqa: B023
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
            until(
                lambda: v.counters["opened"] == sum(v.count(e) for e in Ending if e), "it is closed"
            )
    assert v.commands == 19 * len(made)


@layouts
def test_many_clients_at_once(layout: str) -> None:
    count, size = 24, 3000
    made = [commands(size, seed) for seed in range(count)]
    received: dict[int, np.ndarray] = {}

    def session(v: Venue, index: int) -> None:
        with v.connect() as client:
            sent = wire(made[index])
            sender = threading.Thread(target=client.sendall, args=(sent,))
            sender.start()
            received[index] = receive(client, size)
            sender.join()

    with venue(layout, count=count, slots=256) as v:
        threads = [threading.Thread(target=session, args=(v, index)) for index in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert v.commands == count * size
    for index in range(count):
        assert_echoes(received[index], made[index])
    sequences = np.concatenate([reports["report_sequence"] for reports in received.values()])
    assert (np.sort(sequences) == np.arange(1, count * size + 1)).all()


@pytest.mark.parametrize("slots", [2, 4, 32])
@layouts
def test_ring_smaller_than_a_burst(layout: str, slots: int) -> None:
    made = commands(4000)
    with venue(layout, slots=slots) as v, v.connect() as client:
        sender = threading.Thread(target=client.sendall, args=(wire(made),))
        sender.start()
        assert_echoes(receive(client, len(made)), made)
        sender.join()
        assert v.counters["held"] > 0


@layouts
def test_logins_are_unique_and_above_those_of_the_log(layout: str) -> None:
    last = 12345
    logins = []
    with venue(layout, count=2, last_login=last) as v:
        for round in range(10):
            with v.connect() as client:
                client.sendall(wire(commands(1)))
                receive(client, 1)
            logins.append(int(v.records["checksum"][-1]))
            until(lambda: v.count(Ending.FINISHED) == round + 1, "it is closed")  # noqa: B023
    assert len(set(logins)) == 10
    assert min(logins) > last


def test_a_log_without_logins_is_refused() -> None:
    with pytest.raises(BadInput, match="no logins left"):
        allocate(8, last_login=(1 << 32) - 1)


@pytest.mark.parametrize("count", [0, -1, (1 << 14) + 1])
def test_impossible_tables(count: int) -> None:
    with pytest.raises(BadInput, match="connections"):
        allocate(count)


def test_an_empty_table_costs_little() -> None:
    connections = allocate()
    assert statuses(connections) == []
    free(connections)


@layouts
def test_a_storm_of_all_kinds(layout: str) -> None:
    """Clients that finish, fail, hang up or vanish, all at once: each gets all that is its own."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    endings = dict.fromkeys(Ending, 0)
    executed = [0]
    lock = threading.Lock()

    def session(v: Venue, chance: random.Random) -> None:
        made = commands(chance.randrange(1, 400), chance.randrange(1 << 20))
        sent = wire(made)
        kind = chance.choice((Ending.FINISHED, Ending.BAD_TYPE, Ending.TRUNCATED, Ending.LOST))
        tail = {Ending.BAD_TYPE: b"\xff" + bytes(chance.randrange(5000)), Ending.TRUNCATED: b"\x01"}
        cuts = [chance.randrange(len(sent)) for _ in range(chance.randrange(4))]
        with v.connect() as client:
            send_in_parts(client, sent + tail.get(kind, b""), cuts)
            if kind != Ending.LOST:
                if kind != Ending.BAD_TYPE:
                    client.shutdown(socket.SHUT_WR)
                reports = receive_all(client)
                assert_echoes(reports[: len(made)], made)
                assert len(reports) == len(made) + (kind != Ending.FINISHED)
        with lock:
            endings[kind] += 1
            executed[0] += len(made)

    def crowd(v: Venue, seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(25):
            session(v, chance)

    with venue(layout, slots=128, count=256, out_bytes=1 << 15) as v:
        threads = [threading.Thread(target=crowd, args=(v, seed + each)) for each in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        until(lambda: v.commands == executed[0], "all commands have been matched")
        until(lambda: sum(map(v.count, list(Ending)[1:])) == 200, "all are closed")
        assert v.count(Ending.BAD_TYPE) == endings[Ending.BAD_TYPE]
        assert v.count(Ending.TRUNCATED) == endings[Ending.TRUNCATED]
        assert v.count(Ending.SLOW) == v.entry.refused == 0
