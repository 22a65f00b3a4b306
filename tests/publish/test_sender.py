"""Opening a publisher, and what it does when the network says no."""

import socket

import numpy as np
import pytest

from matchbox.atomics import U
from matchbox.errors import BadInput, MatchboxError, Unavailable
from matchbox.publish import sender as sender_module
from matchbox.publish.sender import Sender, open_publisher, reports_per_datagram
from matchbox.publish.state import Fault, Setting
from matchbox.publish.transmit import RETRIES, SOL_UDP, UDP_SEGMENT
from tests.publish.entries import end_of_stream, heartbeat, publish
from tests.publish.wire import (
    address_of,
    datagrams,
    free_address,
    is_silent,
    mold,
    outbox,
    public,
    receiver,
    reports_of,
    words,
)

SO_NO_CHECK = 11


def send(sender: Sender, entries: np.ndarray) -> None:
    fault = publish(sender.publisher, words(entries), U(0), U(len(entries)))
    assert fault == Fault.NONE


@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        ({"address": "239.1.1.1"}, BadInput, "no port"),
        ({"address": "239.1.1.1:"}, BadInput, "port ''"),
        ({"address": "239.1.1.1:0"}, BadInput, "port '0'"),
        ({"address": "239.1.1.1:65536"}, BadInput, "65536"),
        ({"address": "239.1.1.1:-1"}, BadInput, "-1"),
        ({"address": "239.1.1.1:٣"}, BadInput, "٣"),
        ({"address": "239.1.1:5001"}, BadInput, "'239.1.1'"),
        ({"address": "exchange:5001"}, BadInput, "'exchange'"),
        ({"address": ":5001"}, BadInput, "''"),
        ({"address": "[ff02::1]:5001"}, BadInput, "IPv6"),
        ({"address": "0.0.0.0:5001"}, BadInput, "0.0.0.0"),
        ({"address": "255.255.255.255:5001"}, BadInput, "255.255.255.255"),
        ({"address": "250.0.0.1:5001"}, BadInput, "250.0.0.1"),
        ({"stream": ""}, BadInput, "''"),
        ({"stream": "ELEVENCHARS"}, BadInput, "ELEVENCHARS"),
        ({"stream": "é"}, BadInput, "é"),
        ({"interface": "nowhere0"}, Unavailable, "nowhere0"),
        ({"interface": "203.0.113.7"}, Unavailable, "203.0.113.7"),
        ({"address": "127.0.0.1:5001", "interface": "lo"}, BadInput, "unicast"),
        ({"ttl": 256}, BadInput, "256"),
        ({"ttl": -1}, BadInput, "-1"),
        ({"mtu": 97}, BadInput, "97"),
        ({"mtu": 65536}, BadInput, "65536"),
        ({"next_sequence": 0}, BadInput, "next_sequence 0"),
        ({"heartbeat_s": 0}, BadInput, "heartbeat_s 0"),
        ({"heartbeat_s": float("nan")}, BadInput, "nan"),
        ({"heartbeat_s": float("inf")}, BadInput, "inf"),
        ({"send_buffer": -1}, BadInput, "send_buffer -1"),
        ({"offload": "magic"}, BadInput, "magic"),
    ],
)
def test_wrong_arguments(
    arguments: dict[str, object], error: type[MatchboxError], told: str
) -> None:
    with pytest.raises(error) as raised:
        open_publisher(**{"address": "239.1.1.1:5001", "stream": "TEST", **arguments})
    assert told in str(raised.value) and "expected" in str(raised.value)


def test_no_permission() -> None:
    with pytest.raises(Unavailable, match=r"127\.255\.255\.255:5001"):
        open_publisher("127.255.255.255:5001", "TEST")


def test_reports_in_a_datagram() -> None:
    assert [reports_per_datagram(mtu) for mtu in (97, 98, 1497, 1498, 1500, 9000)] == [
        0, 1, 28, 29, 29, 179,
    ]  # fmt: skip


def test_what_was_opened() -> None:
    with open_publisher("239.1.1.1:5001", "TEST", next_sequence=12, send_buffer=1 << 16) as sender:
        assert str(sender.address) == "239.1.1.1:5001"
        assert sender.next_sequence == 12
        assert sender.mtu == 1500
        assert sender.reports_per_datagram == 29
        assert sender.send_buffer >= 1 << 16
        assert sender.offload in ("gso", "mmsg", "none")
        assert set(sender.counters.values()) == {0}


def test_the_routes_mtu_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_publisher("239.1.1.1:5001", "TEST", mtu=65535) as sender:
        assert sender.mtu == 65535  # loopback takes all
    monkeypatch.setattr(socket.socket, "getsockopt", lambda *_: 1400)
    with open_publisher("239.1.1.1:5001", "TEST") as sender:
        assert (sender.mtu, sender.reports_per_datagram) == (1400, 27)


def test_probing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without UDP_SEGMENT `auto` takes sendmmsg, and `gso` says what is missing."""
    monkeypatch.setattr(sender_module, "UDP_SEGMENT", 9999)
    with open_publisher("239.1.1.1:5001", "TEST", offload="auto") as sender:
        assert sender.offload == "mmsg"
    with pytest.raises(Unavailable, match="UDP_SEGMENT"):
        open_publisher("239.1.1.1:5001", "TEST", offload="gso")


def test_segmentation_that_fails_is_given_up() -> None:
    """The kernel does not segment for a socket without checksums."""
    first, second = outbox(100), outbox(50, first=101)
    expected = mold(public(reports_of(first))) + mold(public(reports_of(second)))
    with receiver() as sock, open_publisher(address_of(sock), "TEST", offload="gso") as sender:
        sender._socket.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)
        send(sender, first)
        send(sender, second)
        assert datagrams(sock, len(expected)) == expected
        assert is_silent(sock)
        assert sender.offload == "mmsg"
        assert sender.counters["fallbacks"] == 1
        assert sender.counters["dropped"] == 0
        assert sender._socket.getsockopt(SOL_UDP, UDP_SEGMENT) == 0


def test_segmentation_that_fails_on_a_heartbeat() -> None:
    with receiver() as sock, open_publisher(address_of(sock), "TEST", offload="gso") as sender:
        sender._socket.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)
        heartbeat(sender.publisher, 10**18)
        assert len(datagrams(sock, 1)[0]) == 20
        assert sender.offload == "mmsg"


@pytest.mark.parametrize("offload", ["gso", "mmsg", "none"])
def test_a_receiver_that_is_gone(offload: str) -> None:
    """Refusals are counted and ignored; one that comes back misses nothing sent after it did."""
    address = free_address()
    with open_publisher(address, "TEST", offload=offload) as sender:
        for at in range(10):
            send(sender, outbox(40, first=1 + 40 * at))
        assert sender.counters["refused"] > 0
        assert sender.counters["dropped"] == 0
        host, port = address.split(":")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind((host, int(port)))
            sock.settimeout(5)
            entries = outbox(40, first=401)
            send(sender, entries)
            assert datagrams(sock, 2) == mold(public(reports_of(entries)))


@pytest.mark.parametrize("offload", ["mmsg", "none"])
def test_a_full_send_buffer(offload: str) -> None:
    """Sends are tried a bounded number of times, then counted as dropped; later ones go out again.

    A socket pair that nobody reads stands for a network that does not take what it is given.
    """
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with near, far, open_publisher("239.1.1.1:5001", "TEST", offload=offload) as sender:
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        sender.publisher.settings[Setting.DESCRIPTOR] = near.fileno()
        entries = outbox(29 * 40)
        send(sender, entries)
        counters = sender.counters
        assert counters["reports"] == 29 * 40
        assert counters["datagrams"] + counters["dropped"] == 40
        assert counters["dropped"] > 0 and counters["datagrams"] > 0
        assert counters["sends"] <= 40 * (int(RETRIES) + 1)
        assert counters["last_errno"] != 0
        far.setblocking(False)
        taken = [far.recv(2000) for _ in range(counters["datagrams"])]
        assert taken == mold(public(reports_of(entries)))[: len(taken)]
        after = outbox(1, first=29 * 40 + 1)
        send(sender, after)
        assert far.recv(2000) == mold(public(reports_of(after)))[0]


@pytest.mark.parametrize("offload", ["gso", "mmsg", "none"])
def test_a_socket_that_is_dead(offload: str) -> None:
    """Any other error drops each datagram once, counted with its errno."""
    with open_publisher("239.1.1.1:5001", "TEST", offload=offload) as sender:
        sender._socket.shutdown(socket.SHUT_WR)
        send(sender, outbox(100))
        end_of_stream(sender.publisher)
        assert sender.counters["dropped"] == 4 + 3
        assert sender.counters["datagrams"] == 0
        assert sender.counters["last_errno"] == 32  # EPIPE
