"""Accepting, refusing and closing: nothing leaks, and everybody is told."""

import os
import socket
import threading

import numpy as np
import pytest

from matchbox import clients
from matchbox import connections as table
from matchbox.connections import Ending
from matchbox.constants import Kind, Reason, ReportFlag
from matchbox.errors import Unavailable
from matchbox.order_entry import OrderEntry
from tests.decode.venue import (
    LAYOUTS,
    PATIENCE_S,
    assert_echoes,
    commands,
    receive,
    receive_all,
    until,
    venue,
    wire,
)

layouts = pytest.mark.parametrize("layout", LAYOUTS)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@layouts
def test_200_clients_one_after_the_other_leak_nothing(layout: str) -> None:
    with venue(layout, count=4) as v:
        counts = set()
        for round in range(1, 201):
            with v.connect() as client:
                client.sendall(wire(commands(2, seed=round)))
                assert_echoes(receive(client, 2), commands(2, seed=round))
            until(lambda: v.count(Ending.FINISHED) == round, "it is closed")  # noqa: B023
            counts.add(descriptors())
        assert len(counts) == 1
        assert v.entry.accepted == 200
        assert v.counters["opened"] == 200


@layouts
def test_a_full_table_refuses_and_takes_clients_again(layout: str) -> None:
    with venue(layout, count=3) as v:
        inside = [v.connect() for _ in range(3)]
        for client in inside:
            client.sendall(wire(commands(1)))
            receive(client, 1)
        for _ in range(5):
            with v.connect() as outside:
                outside.sendall(wire(commands(100)))
                (report,) = receive_all(outside)
            assert (report["kind"], report["reason"]) == (Kind.REJECTED, Reason.CONNECTIONS_FULL)
            assert (report["report_sequence"], report["flags"]) == (0, ReportFlag.LAST)
        assert v.entry.refused == 5
        assert v.commands == 3
        inside.pop().close()
        until(lambda: v.count(Ending.FINISHED) == 1, "one is closed")
        with v.connect() as client:
            client.sendall(wire(commands(7)))
            assert_echoes(receive(client, 7), commands(7))
        for client in inside:
            client.close()


@layouts
def test_a_crowd_comes_and_goes(layout: str) -> None:
    """More clients than slots: each is served whole or refused, and the table ends up empty."""
    served, refused = [], []

    def session(seed: int) -> None:
        with v.connect() as client:
            client.sendall(wire(commands(20, seed)))
            client.shutdown(socket.SHUT_WR)
            reports = receive_all(client)
        if len(reports) == 20:
            assert_echoes(reports, commands(20, seed))
            served.append(seed)
        else:
            assert reports["reason"].tolist() == [Reason.CONNECTIONS_FULL]
            refused.append(seed)

    with venue(layout, count=8) as v:
        threads = [threading.Thread(target=session, args=(seed,)) for seed in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        until(lambda: not clients.open_descriptors(v.connections), "all are closed")
        assert len(served) + len(refused) == 100
        assert (v.entry.accepted, v.entry.refused) == (len(served), len(refused))
        assert v.commands == 20 * len(served)


def test_a_client_that_says_nothing_costs_nothing_and_is_closed_at_the_end() -> None:
    with venue() as v:
        with v.connect() as client:
            until(lambda: v.entry.accepted == 1, "it is accepted")
            assert [row.login for row in clients.statuses(v.connections)] == [8]
        until(lambda: v.count(Ending.FINISHED) == 1, "it is closed")
        client = v.connect()
        until(lambda: v.entry.accepted == 2, "it is accepted")
    assert len(receive_all(client)) == 0
    client.close()


def test_close_before_start_and_port_in_use() -> None:
    before = descriptors()
    connections = table.allocate(2)
    entry = OrderEntry(("127.0.0.1", 0), connections)
    with pytest.raises(Unavailable, match=f"127.0.0.1:{entry.address[1]}: .*in use"):
        OrderEntry(entry.address, connections)
    with pytest.raises(Unavailable, match="192.0.2.1"):
        OrderEntry(("192.0.2.1", 0), connections)
    assert entry.close() == 0
    entry.stop()
    assert descriptors() == before


@pytest.mark.parametrize(("sent", "halted", "reset"), [(0, False, 0), (1, False, 1), (0, True, 1)])
def test_only_a_client_that_was_answered_sees_the_end(sent: int, halted: bool, reset: int) -> None:
    connections = table.allocate(2)
    entry = OrderEntry(("127.0.0.1", 0), connections)
    entry.start()
    with socket.create_connection(entry.address, PATIENCE_S) as client:
        client.sendall(wire(commands(sent)))
        until(lambda: entry.accepted == 1, "it is accepted")
        assert entry.close(linger_s=0.05, halted=halted) == reset
        if not reset:
            assert client.recv(1) == b""
            return
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_logins_run_out_slot_by_slot() -> None:
    """The last generation: one login a slot, then nobody is let in."""
    last = (1 << 32) - 3
    with venue(count=2, last_login=last) as v:
        logins = []
        for round in range(2):
            with v.connect() as client:
                client.sendall(wire(commands(1)))
                receive(client, 1)
            logins.append(int(v.records["checksum"][round]))
            until(lambda: v.count(Ending.FINISHED) == round + 1, "it is closed")  # noqa: B023
        assert logins == [(1 << 32) - 2, (1 << 32) - 1]
        with v.connect() as client:
            assert np.array_equal(receive_all(client)["reason"], [Reason.CONNECTIONS_FULL])
