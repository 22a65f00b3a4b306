"""Datagrams as they were received, end to end in one buffer, and what they say. Plain Python.

All datagrams of a wake-up are parsed together, so that a report costs nanoseconds: headers and
messages are gathered by their offsets through views of the buffer that have one item at every byte.

A datagram is valid if and only if (1) it has a header, (2) it ends with its last message, (3) its
sequences lie within 1 to 2^64 - 1, (4) each message has a report's length, (5) report sequences run
on from the header's.
"""

from typing import NamedTuple

import numpy as np

from matchbox.schema import MOLD, REPORT, REPORT_BYTES

HEADER_BYTES = MOLD.itemsize
LENGTH_BYTES = 2
MESSAGE_BYTES = LENGTH_BYTES + REPORT_BYTES
END_OF_SESSION = 0xFFFF
SEQUENCE_MAX = (1 << 64) - 1

TRAIN_BYTES_MAX = (
    1 << 16
)  # what one receive can bring: the largest UDP payload, or a train of smaller ones
INBOX_BYTES = 1 << 20


class Datagrams(NamedTuple):
    """`k` parsed datagrams. Report i of datagram d is reports[offsets[d] + i]."""

    valid: np.ndarray  # bool[k]
    streams: np.ndarray  # S10[k]
    sequences: np.ndarray  # u64[k]
    counts: np.ndarray  # i64[k], as sent
    offsets: np.ndarray  # i64[k + 1]
    reports: np.ndarray  # REPORT, a copy; what an invalid datagram holds is meaningless


class Inbox:
    """A buffer that fills with datagrams, is parsed and cleared."""

    def __init__(self) -> None:
        # What is gathered at the last byte may reach past the end: its datagram is invalid.
        self._bytes = bytearray(INBOX_BYTES + TRAIN_BYTES_MAX)
        self._view = memoryview(self._bytes)
        self._headers = np.ndarray(INBOX_BYTES, f"V{HEADER_BYTES}", self._bytes, 0, 1)
        self._lengths = np.ndarray(INBOX_BYTES, ">u2", self._bytes, 0, 1)
        self._reports = np.ndarray(INBOX_BYTES, f"V{REPORT_BYTES}", self._bytes, LENGTH_BYTES, 1)
        self._places = np.arange(INBOX_BYTES // MESSAGE_BYTES, dtype=np.int64)
        self._starts: list[int] = []
        self._end = 0

    @property
    def full(self) -> bool:
        """Whether there is no more room for what one receive can bring."""
        return self._end > INBOX_BYTES - TRAIN_BYTES_MAX

    @property
    def room(self) -> memoryview:
        """Where the next receive goes."""
        return self._view[self._end : self._end + TRAIN_BYTES_MAX]

    def add(self, size: int, segment: int) -> None:
        """`size` bytes came into `room`: datagrams of `segment` bytes, the last maybe shorter."""
        end = self._end + size
        if size > segment:
            self._starts.extend(range(self._end, end, segment))
        else:
            self._starts.append(self._end)
        self._end = end

    def clear(self) -> None:
        self._starts.clear()
        self._end = 0

    def __len__(self) -> int:
        return len(self._starts)

    def parse(self) -> Datagrams:
        """What all datagrams say."""
        starts = np.array(self._starts, np.int64)
        headers = self._headers[starts].view(MOLD)
        sequences = headers["sequence"].astype(np.uint64)
        counts = headers["count"].astype(np.int64)
        messages = np.where(counts == END_OF_SESSION, 0, counts)
        valid = np.diff(starts, append=self._end) == HEADER_BYTES + messages * MESSAGE_BYTES
        valid &= (sequences != 0) & (sequences - 1 <= SEQUENCE_MAX - messages.astype(np.uint64))
        messages[~valid] = 0
        offsets = np.zeros(len(starts) + 1, np.int64)
        np.cumsum(messages, out=offsets[1:])

        places = self._places[: offsets[-1]]
        firsts = starts + HEADER_BYTES - offsets[:-1] * MESSAGE_BYTES
        message_at = np.repeat(firsts, messages) + places * MESSAGE_BYTES
        reports = self._reports[message_at].view(REPORT)
        expected = np.repeat(sequences - offsets[:-1].astype(np.uint64), messages) + places.view(
            np.uint64
        )
        bad = (self._lengths[message_at] != REPORT_BYTES) | (reports["report_sequence"] != expected)
        if bad.any():
            valid[np.searchsorted(offsets, np.flatnonzero(bad), "right") - 1] = False
        return Datagrams(valid, headers["stream"], sequences, counts, offsets, reports)

    def fault(self, datagrams: Datagrams, index: int) -> str:
        """What makes a datagram invalid, in words."""
        start = self._starts[index]
        size = [*self._starts, self._end][index + 1] - start
        if size < HEADER_BYTES:
            return f"{size} bytes, shorter than a header of {HEADER_BYTES}"
        sequence, count = int(datagrams.sequences[index]), int(datagrams.counts[index])
        messages = 0 if count == END_OF_SESSION else count
        expected = HEADER_BYTES + messages * MESSAGE_BYTES
        if size != expected:
            return f"{size} bytes, not the {expected} of {messages} reports"
        if sequence == 0 or sequence - 1 + messages > SEQUENCE_MAX:
            return f"{messages} reports from sequence {sequence}: expected sequences 1 to 2^64 - 1"
        lengths = self._lengths[start + HEADER_BYTES : start + size : MESSAGE_BYTES]
        if (lengths != REPORT_BYTES).any():
            return f"a message is not of a report's {REPORT_BYTES} bytes"
        return f"report sequences do not run on from the header's {sequence}"
