"""The subscriber against every mischief a network can make, and against the publisher."""

import random
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchbox.atomics import U
from matchbox.errors import BadInput, MatchboxError, Unavailable
from matchbox.publish.sender import open_publisher
from matchbox.publish.state import Fault
from matchbox.subscriber import Subscriber
from tests.publish.entries import end_of_stream, heartbeat, publish
from tests.publish.wire import (
    address_of,
    datagram,
    free_address,
    free_group,
    mold,
    outbox,
    public,
    receiver,
    reports_of,
    words,
)

REPORTS = public(reports_of(outbox(1000)))
END = 0xFFFF


class Relay:
    """Stands between publisher and subscriber: sends what the test wants the network to deliver."""

    def __init__(self, sock: socket.socket, subscriber: Subscriber, notices: list[str]) -> None:
        self.socket, self.subscriber, self.notices = sock, subscriber, notices

    def deliver(self, *messages: bytes) -> list[int]:
        """Send datagrams and return the sequences of the reports that the subscriber hands out."""
        for message in messages:
            self.socket.send(message)
        found: list[int] = []
        while (reports := self.subscriber.receive(0)) is not None:
            expected = REPORTS[reports["report_sequence"].astype(int) - 1]
            assert reports.tobytes() == expected.tobytes()
            found += reports["report_sequence"].tolist()
        return found


@contextmanager
def relay(**arguments: object) -> Iterator[Relay]:
    address, notices = free_address(), list[str]()
    with (
        Subscriber(address, on_notice=notices.append, **arguments) as subscriber,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
    ):
        host, port = address.split(":")
        sock.connect((host, int(port)))
        yield Relay(sock, subscriber, notices)


def part(first: int, last: int, stream: bytes = b"TEST") -> bytes:
    """One datagram of reports first to last."""
    (made,) = mold(REPORTS[first - 1 : last], each=len(REPORTS), stream=stream)
    return made


def run(first: int, last: int) -> list[int]:
    return list(range(first, last + 1))


# -- with the publisher --------------------------------------------------------------------------


@pytest.mark.parametrize("offload", ["gso", "mmsg", "none"])
@pytest.mark.parametrize("trains", [True, False])
def test_every_report_arrives(offload: str, trains: bool) -> None:
    entries = outbox(5000)
    with (
        free_group() as group,
        Subscriber(group, timeout=5, trains=trains) as subscriber,
        open_publisher(group, "TEST", offload=offload) as sender,
    ):
        heartbeat(sender.publisher, 10**10)
        first = 0
        for count in (1, 29, 30, 1276, 1, 2000, 1, 1662):
            fault = publish(sender.publisher, words(entries), U(first), U(first + count))
            assert fault == Fault.NONE
            first += count
        end_of_stream(sender.publisher)
        reports = np.concatenate(list(subscriber))
        assert reports.tobytes() == public(reports_of(entries)).tobytes()
        summary = subscriber.summary
        assert summary.stream == "TEST"
        assert (summary.reports, summary.first_sequence, summary.last_sequence) == (5000, 1, 5000)
        assert summary.datagrams == sender.counters["datagrams"]
        assert summary.heartbeats == 1
        assert summary.ended == "end of session"
        assert summary.gaps == summary.missing == summary.duplicates == summary.malformed == 0


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 200), min_size=1, max_size=20), st.integers(98, 1500))
def test_publish_then_parse(batches: list[int], mtu: int) -> None:
    entries = outbox(sum(batches), seed=mtu)
    address = free_address()
    with (
        Subscriber(address, timeout=5) as subscriber,
        open_publisher(address, "TEST", mtu=mtu) as sender,
    ):
        first = 0
        for count in batches:
            publish(sender.publisher, words(entries), U(first), U(first + count))
            first += count
        end_of_stream(sender.publisher)
        reports = np.concatenate(list(subscriber))
        assert reports.tobytes() == public(reports_of(entries)).tobytes()


def test_two_subscribers_share_a_group() -> None:
    with free_group() as group, Subscriber(group) as one, Subscriber(group, "127.0.0.1") as two:
        with open_publisher(group, "TEST") as sender:
            publish(sender.publisher, words(outbox(10)), U(0), U(10))
        for subscriber in (one, two):
            reports = subscriber.receive(5)
            assert reports is not None and len(reports) == 10


def test_other_groups_at_the_port_are_not_heard() -> None:
    with free_group() as group:
        host, port = group.split(":")
        other = f"239.254.{host.split('.', 2)[2]}:{port}"
        with (
            Subscriber(group) as one,
            Subscriber(other) as two,
            open_publisher(other, "TEST") as sender,
        ):
            publish(sender.publisher, words(outbox(10)), U(0), U(10))
            assert two.receive(5) is not None
            assert one.receive(0.05) is None


def test_silence_ends_iteration() -> None:
    with relay(timeout=0.05) as wire:
        assert list(wire.subscriber) == []
        assert wire.subscriber.summary.ended == "timeout"


# -- gaps ----------------------------------------------------------------------------------------


def test_starts_at_what_comes_first() -> None:
    with relay() as wire:
        assert wire.deliver(part(51, 60), part(61, 70)) == run(51, 70)
        assert wire.deliver(part(41, 52)) == []
        summary = wire.subscriber.summary
        assert (summary.gaps, summary.early, summary.duplicates) == (0, 10, 2)
        assert (summary.first_sequence, summary.last_sequence) == (51, 70)


def test_starts_at_what_is_asked_for() -> None:
    with relay(from_=41) as wire:
        assert wire.deliver(part(31, 45), part(51, 60)) == [*run(41, 45), *run(51, 60)]
        assert wire.notices == ["gap: reports 46..50 are missing (5)"]
        assert wire.subscriber.summary.early == 10


def test_gap_in_front() -> None:
    with relay(from_=1) as wire:
        assert wire.deliver(part(51, 60)) == run(51, 60)
        assert wire.subscriber.summary.missing == 50
        assert wire.notices == ["gap: reports 1..50 are missing (50)"]


@pytest.mark.parametrize("trains", [True, False])
def test_lost_datagram(trains: bool) -> None:
    with relay(trains=trains) as wire:
        found = wire.deliver(part(1, 29), part(30, 58), part(88, 116), part(117, 120))
        assert found == [*run(1, 58), *run(88, 120)]
        summary = wire.subscriber.summary
        assert (summary.gaps, summary.missing, summary.late) == (1, 29, 0)
        assert [tuple(gap) for gap in wire.subscriber.gaps.missing] == [(59, 87)]
        assert wire.notices == ["gap: reports 59..87 are missing (29)"]


def test_duplicates_are_dropped() -> None:
    with relay() as wire:
        assert wire.deliver(part(1, 29), part(1, 29), part(20, 40), part(5, 6)) == run(1, 40)
        summary = wire.subscriber.summary
        assert (summary.duplicates, summary.reports, summary.gaps) == (29 + 10 + 2, 40, 0)


def test_reordered_datagrams_fill_their_gap() -> None:
    with relay() as wire:
        found = wire.deliver(part(1, 10), part(21, 30), part(11, 20), part(31, 40))
        assert found == [*run(1, 10), *run(21, 30), *run(11, 20), *run(31, 40)]
        summary = wire.subscriber.summary
        assert (summary.gaps, summary.missing, summary.late, summary.duplicates) == (1, 0, 10, 0)


def test_part_of_a_gap_is_filled() -> None:
    with relay() as wire:
        assert wire.deliver(part(1, 10), part(31, 40)) == [*run(1, 10), *run(31, 40)]
        assert wire.deliver(part(5, 14), part(19, 22), part(29, 33)) == [
            *run(11, 14), *run(19, 22), *run(29, 30),
        ]  # fmt: skip
        assert [tuple(gap) for gap in wire.subscriber.gaps.missing] == [(15, 18), (23, 28)]
        summary = wire.subscriber.summary
        assert (summary.missing, summary.late, summary.duplicates) == (10, 10, 9)


def test_heartbeat_reveals_a_lost_tail() -> None:
    with relay() as wire:
        assert wire.deliver(part(1, 10), datagram(b"TEST", 11, 0)) == run(1, 10)
        assert wire.notices == []
        assert wire.deliver(datagram(b"TEST", 15, 0), datagram(b"TEST", 15, 0)) == []
        assert wire.notices == ["gap: reports 11..14 are missing (4)"]
        assert wire.subscriber.summary.heartbeats == 3
        assert wire.deliver(datagram(b"TEST", 12, 0), part(11, 16)) == [*run(11, 14), 15, 16]
        assert wire.subscriber.summary.missing == 0


def test_heartbeat_first() -> None:
    """A heartbeat tells where the stream is: what is lost behind it is a gap."""
    with relay() as wire:
        assert wire.deliver(datagram(b"TEST", 5, 0), part(7, 9)) == run(7, 9)
        assert wire.notices == ["gap: reports 5..6 are missing (2)"]


def test_end_of_session_reveals_a_lost_tail() -> None:
    with relay() as wire:
        for message in (part(1, 10), datagram(b"TEST", 13, END), datagram(b"TEST", 13, END)):
            wire.socket.send(message)
        assert [len(reports) for reports in wire.subscriber] == [10]
        summary = wire.subscriber.summary
        assert (summary.ended, summary.missing, summary.datagrams) == ("end of session", 2, 3)


# -- streams -------------------------------------------------------------------------------------


def test_stream_changes_and_numbers_run_on() -> None:
    with relay() as wire:
        assert wire.deliver(part(1, 10), part(11, 20, b"NEXT"), part(21, 30, b"NEXT")) == run(1, 30)
        assert wire.notices == ["stream changed from TEST to NEXT at report 11"]
        summary = wire.subscriber.summary
        assert (summary.stream, summary.stream_changes, summary.gaps) == ("NEXT", 1, 0)


def test_stream_that_starts_lower_makes_numbers_mean_something_else() -> None:
    with relay() as wire:
        assert wire.deliver(part(1, 5), part(8, 20), part(16, 30, b"NEXT")) == [
            *run(1, 5), *run(8, 20), *run(16, 30),
        ]  # fmt: skip
        assert [tuple(gap) for gap in wire.subscriber.gaps.missing] == [(6, 7)]
        assert wire.subscriber.summary.duplicates == 0


def test_replaced_stream_is_not_followed_back() -> None:
    with relay() as wire:
        assert wire.deliver(part(1, 5), datagram(b"NEXT", 6, 0), part(6, 9)) == run(1, 5)
        assert wire.deliver(part(6, 9, b"NEXT"), datagram(b"TEST", 10, END)) == run(6, 9)
        summary = wire.subscriber.summary
        assert (summary.foreign, summary.stream, summary.ended) == (2, "NEXT", "")


# -- malformed -----------------------------------------------------------------------------------

ONE = REPORTS[0].tobytes()


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (b"", "0 bytes, shorter than a header"),
        (part(1, 1)[:19], "19 bytes, shorter than a header"),
        (part(1, 1)[:-1], "69 bytes, not the 70 of 1 reports"),
        (part(1, 1) + b"\0", "71 bytes, not the 70"),
        (datagram(b"TEST", 1, 0, ONE), "70 bytes, not the 20 of 0"),
        (datagram(b"TEST", 1, END, ONE), "70 bytes, not the 20 of 0"),
        (datagram(b"TEST", 1, 2, ONE), "70 bytes, not the 120 of 2"),
        (datagram(b"TEST", 0, 0), "0 reports from sequence 0"),
        (
            datagram(b"TEST", (1 << 64) - 1, 2, ONE, ONE),
            "2 reports from sequence 18446744073709551615",
        ),
        (datagram(b"TEST", 1, 2, ONE[:47], ONE + b"\0"), "not of a report's 48 bytes"),
        (datagram(b"TEST", 2, 1, ONE), "run on from the header's 2"),
        (datagram(b"TEST", 1, 2, ONE, ONE), "run on from the header's 1"),
    ],
)
def test_malformed_datagram(message: bytes, told: str) -> None:
    with relay() as wire:
        assert wire.deliver(part(1, 4), message, part(5, 9)) == run(1, 9)
        assert wire.subscriber.summary.malformed == 1
        assert wire.subscriber.summary.datagrams == 3
        (notice,) = wire.notices
        assert told in notice
        assert "from {}:{}:".format(*wire.socket.getsockname()) in notice
        assert wire.deliver(message) == []
        assert len(wire.notices) == 2


def test_survives_a_notice_that_raises() -> None:
    """As when the user interrupts: what had arrived is not handed out again."""

    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    with relay() as wire:
        wire.subscriber.on_notice = interrupt
        with pytest.raises(KeyboardInterrupt):
            wire.deliver(part(1, 4), part(9, 10))
        wire.subscriber.on_notice = wire.notices.append
        assert wire.deliver(part(11, 12), b"") == run(11, 12)
        assert wire.subscriber.summary.datagrams == 4


def test_strange_stream_names_are_printable() -> None:
    with relay() as wire:
        wire.deliver(datagram(b"A\x1b[2J\xff", 1, 0))
        assert wire.subscriber.stream == r"A\x1b[2J\xff"


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=130), max_size=8))
def test_noise_raises_nothing(messages: list[bytes]) -> None:
    with relay() as wire:
        for message in messages:
            wire.socket.send(message)
        while wire.subscriber.receive(0) is not None:
            pass
        assert wire.subscriber.summary.datagrams == len(messages)


# -- a bad network, at random --------------------------------------------------------------------


@pytest.mark.parametrize("trains", [True, False])
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_bad_network(trains: bool, seed: int) -> None:
    """Loss, duplication, reordering: a report is handed out once if it came at all."""
    chance = random.Random(seed)
    each = chance.choice([1, 3, 29])
    sent = [message for message in mold(REPORTS[:300], each) if chance.random() > 0.1]
    sent += [message for message in sent if chance.random() < 0.1]
    sent = [sent[i] for i in sorted(range(len(sent)), key=lambda i: i + chance.uniform(0, 3))]
    came = [int.from_bytes(message[10:18], "big") for message in sent]
    expected = {at for first in came for at in range(first, min(first + each, 301))}
    with relay(from_=1, trains=trains) as wire:
        found: list[int] = []
        while sent:
            burst = chance.randint(1, 20)
            found += wire.deliver(*sent[:burst])
            del sent[:burst]
        assert sorted(found) == sorted(expected)
        summary, gaps = wire.subscriber.summary, wire.subscriber.gaps.missing
        missing = [at for gap in gaps for at in range(gap.first, gap.last + 1)]
        assert missing == sorted(set(range(1, max(found, default=0) + 1)) - expected)
        assert summary.missing == len(missing)
        assert summary.duplicates == sum(min(each, 301 - first) for first in came) - len(found)


# -- opening -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        (("nonsense",), BadInput, "nonsense"),
        (("239.1.1.1:0",), BadInput, "port '0'"),
        (("239.1.1.1:5001", "nowhere0"), Unavailable, "nowhere0"),
        (("239.1.1.1:5001", "203.0.113.7"), Unavailable, "203.0.113.7"),
        (("127.0.0.1:5001", "lo"), BadInput, "unicast"),
        (("203.0.113.7:5001",), Unavailable, "203.0.113.7:5001"),
        (("239.1.1.1:5001", None, 0), BadInput, "first sequence 0"),
        (("239.1.1.1:5001", None, 1, 0.0), BadInput, "timeout 0"),
        (("239.1.1.1:5001", None, 1, float("inf")), BadInput, "timeout inf"),
    ],
)
def test_wrong_arguments(
    arguments: tuple[object, ...], error: type[MatchboxError], told: str
) -> None:
    opened: Callable[..., Subscriber] = Subscriber
    with pytest.raises(error, match="expected") as raised:
        opened(*arguments)
    assert told in str(raised.value)


def test_port_in_use() -> None:
    with receiver() as sock, pytest.raises(Unavailable, match=f"{address_of(sock)}.*in use"):
        Subscriber(address_of(sock))


def test_receive_buffer_without_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    """Says what it got when the system's limit holds."""
    monkeypatch.setattr("matchbox.membership.SO_RCVBUFFORCE", socket.SO_RCVBUF)
    with Subscriber(free_address(), receive_buffer=1 << 16) as subscriber:
        assert subscriber.receive_buffer == 1 << 16


def test_kernel_without_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("matchbox.membership.UDP_GRO", 9999)
    with relay() as wire:
        assert not wire.subscriber.trains
        assert wire.deliver(part(1, 10), part(11, 20)) == run(1, 20)
