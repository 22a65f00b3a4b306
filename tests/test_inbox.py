"""The vectorised parser against its readable twin."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from matchbox.inbox import INBOX_BYTES, TRAIN_BYTES_MAX, Inbox
from tests.publish.wire import mold, outbox, reports_of

REPORTS = reports_of(outbox(200))


def naive(message: bytes) -> tuple[bytes, int, int, bytes] | None:
    """Stream, sequence, count and report bytes; None if the datagram is not valid."""
    if len(message) < 20:
        return None
    stream, sequence, count = struct.unpack(">10sQH", message[:20])
    messages = 0 if count == 0xFFFF else count
    if sequence == 0 or sequence + messages > 1 << 64:
        return None
    at, found = 20, []
    for expected in range(sequence, sequence + messages):
        if message[at : at + 2] != b"\0\x30" or len(message) < at + 50:
            return None
        found.append(message[at + 2 : at + 50])
        if int.from_bytes(found[-1][:8], "little") != expected:
            return None
        at += 50
    return (stream, sequence, count, b"".join(found)) if at == len(message) else None


def put(inbox: Inbox, message: bytes, segment: int | None = None) -> None:
    inbox.room[: len(message)] = message
    inbox.add(len(message), segment or len(message))


@st.composite
def nearly_valid(draw: st.DrawFn) -> bytes:
    """A datagram with up to three bytes changed, some cut or some added."""
    first = draw(st.integers(0, 190))
    count = draw(st.integers(0, 9))
    message = bytearray(mold(REPORTS[first : first + count])[0] if count else bytes(20))
    for _ in range(draw(st.integers(0, 3))):
        message[draw(st.integers(0, len(message) - 1))] = draw(st.sampled_from([0, 1, 48, 255]))
    cut = draw(st.sampled_from([0, 0, 0, 1, 50]))
    return bytes(message[: len(message) - cut]) + draw(st.sampled_from([b"", b"", b"", b"\0"]))


@given(st.lists(nearly_valid(), min_size=1, max_size=12))
def test_parses_as_the_readable_twin_does(messages: list[bytes]) -> None:
    inbox = Inbox()
    for message in messages:
        put(inbox, message)
    parsed = inbox.parse()
    assert len(parsed.valid) == len(inbox) == len(messages)
    for index, message in enumerate(messages):
        expected = naive(message)
        assert parsed.valid[index] == (expected is not None)
        if expected is None:
            assert inbox.fault(parsed, index)
            continue
        reports = parsed.reports[parsed.offsets[index] : parsed.offsets[index + 1]]
        assert expected == (
            bytes(parsed.streams[index]).ljust(10, b"\0"),
            parsed.sequences[index],
            parsed.counts[index],
            reports.tobytes(),
        )


def test_train_is_cut_at_its_segments() -> None:
    messages = mold(REPORTS, each=29)
    inbox = Inbox()
    put(inbox, b"".join(messages), segment=1470)
    parsed = inbox.parse()
    assert len(inbox) == 7 and parsed.valid.all()
    assert parsed.reports.tobytes() == REPORTS.tobytes()
    inbox.clear()
    put(inbox, messages[-1])
    assert inbox.parse().reports.tobytes() == REPORTS[-26:].tobytes()


def test_full_inbox_parses_to_its_last_byte() -> None:
    """Shortest datagrams up to the end: a header is gathered at each, past the end at the last."""
    inbox = Inbox()
    while not inbox.full:
        put(inbox, bytes(TRAIN_BYTES_MAX), segment=1)
    assert len(inbox) == INBOX_BYTES
    assert not inbox.parse().valid.any()
