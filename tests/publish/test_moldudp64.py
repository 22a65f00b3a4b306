"""What is on the wire, byte by byte, whichever way it leaves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchbox.atomics import U
from matchbox.constants import Kind, Reason, ReportFlag
from matchbox.publish.sender import Sender, open_publisher
from matchbox.publish.state import Cell, Fault
from matchbox.schema import OUTPUT
from tests.publish.entries import end_of_stream, heartbeat, publish
from tests.publish.wire import (
    address_of,
    datagrams,
    is_silent,
    mold,
    outbox,
    public,
    receiver,
    reports_of,
    words,
)

MODES = ("gso", "mmsg", "none")
FULL = 29  # reports in a datagram at an MTU of 1500
BURST = 44  # datagrams of 1470 bytes in 64 KiB
SECOND_NS = 1_000_000_000


def send(sender: Sender, entries: np.ndarray) -> Fault:
    return Fault(int(publish(sender.publisher, words(entries), U(0), U(len(entries)))))


@pytest.mark.parametrize("offload", MODES)
def test_golden_datagrams(offload: str) -> None:
    """Written by hand from the MoldUDP64 1.0 specification and the report's layout."""
    entries = np.zeros(2, OUTPUT)
    entries["report_sequence"] = 0x0102030405060708, 0x0102030405060709
    entries["reference"] = 0x11, 0x12
    entries["contra"] = 0x21, 0x22
    entries["price"] = -2, 100
    entries["quantity"] = 7, 8
    entries["instrument"] = 1, 0x01020304
    entries["kind"] = Kind.EXECUTED, Kind.CANCELED
    entries["side"] = 1, 0
    entries["reason"] = 0, Reason.USER
    entries["flags"] = 0, ReportFlag.LAST
    entries["checksum"] = entries["resting_account"] = entries["aggressor_account"] = 0xEEEEEEEE
    golden = bytes.fromhex(
        "4d41544348424f583031"  # stream MATCHBOX01
        "0102030405060708"  # sequence, big-endian
        "0002"  # two messages
        "0030"  # 48 bytes
        "0807060504030201"
        "1100000000000000"
        "2100000000000000"
        "feffffffffffffff"
        "0700000000000000"
        "01000000"
        "03"
        "01"
        "00"
        "00"
        "0030"
        "0907060504030201"
        "1200000000000000"
        "2200000000000000"
        "6400000000000000"
        "0800000000000000"
        "04030201"
        "04"
        "00"
        "01"
        "01"
    )
    with (
        receiver() as sock,
        open_publisher(
            address_of(sock), "MATCHBOX01", offload=offload, next_sequence=0x0102030405060708
        ) as sender,
    ):
        assert send(sender, entries) == Fault.NONE
        heartbeat(sender.publisher, 0)
        heartbeat(sender.publisher, SECOND_NS)
        end_of_stream(sender.publisher)
        first, beat, *ends = datagrams(sock, 5)
        assert first == golden
        assert beat == b"MATCHBOX01" + bytes.fromhex("010203040506070a0000")
        assert ends == [b"MATCHBOX01" + bytes.fromhex("010203040506070affff")] * 3
        assert is_silent(sock)


@pytest.mark.parametrize("offload", MODES)
@pytest.mark.parametrize(
    "count",
    [1, 2, FULL - 1, FULL, FULL + 1, 2 * FULL, 64 * FULL]
    + [BURST * FULL - 1, BURST * FULL, BURST * FULL + 1],
)
def test_every_mode_yields_the_same_datagrams(offload: str, count: int) -> None:
    entries = outbox(count)
    expected = mold(public(reports_of(entries)))
    with receiver() as sock, open_publisher(address_of(sock), "TEST", offload=offload) as sender:
        assert send(sender, entries) == Fault.NONE
        assert datagrams(sock, len(expected)) == expected
        assert is_silent(sock)
        assert sender.offload == offload
        counters = sender.counters
        assert (counters["reports"], counters["datagrams"]) == (count, len(expected))
        assert counters["dropped"] == counters["fallbacks"] == 0
        bursts = -(-count // (BURST * FULL))
        assert counters["sends"] == (len(expected) if offload == "none" else bursts)


@pytest.mark.parametrize("offload", MODES)
def test_bursts_of_64_small_segments(offload: str) -> None:
    """At a small MTU the number of segments is the limit, not their bytes."""
    entries = outbox(2 * 65)
    expected = mold(public(reports_of(entries)), each=2)
    with (
        receiver() as sock,
        open_publisher(address_of(sock), "TEST", offload=offload, mtu=148) as sender,
    ):
        assert sender.reports_per_datagram == 2
        assert send(sender, entries) == Fault.NONE
        assert datagrams(sock, 65) == expected
        assert is_silent(sock)


@pytest.mark.parametrize("offload", MODES)
def test_largest_datagram(offload: str) -> None:
    entries = outbox(1309 + 5)
    expected = mold(public(reports_of(entries)), each=1309)
    with (
        receiver() as sock,
        open_publisher(address_of(sock), "TEST", offload=offload, mtu=65535) as sender,
    ):
        assert send(sender, entries) == Fault.NONE
        assert datagrams(sock, 2) == expected


def test_part_of_an_outbox() -> None:
    entries = outbox(10, first=101)
    entries["report_sequence"][:3] = entries["report_sequence"][7:] = 0
    with receiver() as sock, open_publisher(address_of(sock), "TEST", next_sequence=104) as sender:
        assert publish(sender.publisher, words(entries), U(3), U(7)) == Fault.NONE
        assert datagrams(sock, 1) == mold(public(reports_of(entries[3:7])))
        assert publish(sender.publisher, words(entries), U(7), U(7)) == Fault.NONE
        assert is_silent(sock)
        assert sender.next_sequence == 108


@pytest.mark.parametrize("at", [0, 1, 28, 29, 99])
def test_sequences_must_be_dense(at: int) -> None:
    entries = outbox(100)
    entries["report_sequence"][at] += 1
    with receiver() as sock, open_publisher(address_of(sock), "TEST") as sender:
        assert send(sender, entries) == Fault.NOT_DENSE
        assert is_silent(sock)
        assert sender.next_sequence == 1


def test_sequences_must_carry_on() -> None:
    with receiver() as sock, open_publisher(address_of(sock), "TEST") as sender:
        assert send(sender, outbox(5)) == Fault.NONE
        assert send(sender, outbox(5, first=7)) == Fault.NOT_DENSE
        assert send(sender, outbox(5, first=5)) == Fault.NOT_DENSE
        assert send(sender, outbox(5, first=6)) == Fault.NONE


@pytest.mark.parametrize("kind", Kind)
def test_public_report(kind: Kind) -> None:
    entries = np.zeros(1, OUTPUT)
    for field in (
        "reference",
        "contra",
        "price",
        "quantity",
        "instrument",
        "side",
        "reason",
        "flags",
    ):
        entries[field] = 77
    entries["report_sequence"], entries["kind"] = 1, kind
    with receiver() as sock, open_publisher(address_of(sock), "TEST") as sender:
        assert send(sender, entries) == Fault.NONE
        message = datagrams(sock, 1)[0][22:]
    whole = reports_of(entries).tobytes()
    if kind == Kind.ACCEPTED:
        assert message == whole[:16] + bytes(8) + whole[24:]
    elif kind == Kind.REJECTED:
        assert message == whole[:8] + bytes(36) + bytes([kind, 0, 0, 77])
    else:
        assert message == whole


def test_heartbeats_when_quiet() -> None:
    with (
        receiver() as sock,
        open_publisher(address_of(sock), "TEST", heartbeat_s=0.5, next_sequence=9) as sender,
    ):

        def beat(now_s: float) -> bool:
            heartbeat(sender.publisher, int(now_s * SECOND_NS))
            return not is_silent(sock)

        assert beat(100.0)  # at once: tells where the stream is
        assert not beat(100.4)
        assert beat(100.5)
        assert not beat(100.9)
        assert send(sender, outbox(3, first=9)) == Fault.NONE
        assert len(datagrams_now(sock)) == 1
        assert not beat(101.0)  # finds that there were reports: quiet from here on
        assert not beat(101.4)
        assert beat(101.5)
        assert sender.counters["heartbeats"] == 3


def datagrams_now(sock) -> list[bytes]:  # type: ignore[no-untyped-def]
    found = []
    try:
        while True:
            found.append(sock.recv(1 << 16))
    except BlockingIOError:
        return found


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 1500), min_size=1, max_size=4),
    st.sampled_from(MODES),
    st.integers(98, 2000),
    st.integers(1, 1 << 63),
    st.integers(0, 1 << 32),
)
def test_batches_of_any_size(
    batches: list[int], offload: str, mtu: int, first: int, seed: int
) -> None:
    each = (mtu - 48) // 50
    with (
        receiver() as sock,
        open_publisher(
            address_of(sock), "TEST", offload=offload, mtu=mtu, next_sequence=first
        ) as sender,
    ):
        for count in batches:
            entries = outbox(count, first, seed)
            assert send(sender, entries) == Fault.NONE
            expected = mold(public(reports_of(entries)), each)
            assert datagrams(sock, len(expected)) == expected
            first += count
        assert int(sender.publisher.cells[Cell.NEXT]) == first
