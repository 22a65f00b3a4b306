"""Receives the report stream as arrays and tells what is missing. Plain Python.

    with Subscriber("239.1.1.1:5001") as subscriber:
        for reports in subscriber:          # REPORT arrays, until the end of session
            ...
    print(subscriber.summary)

Each array holds new reports in order of arrival. A report is delivered once: duplicates are
dropped, and one that comes late, after a gap, is delivered when it comes. Sequences are ascending
but for those.

Every wake-up takes all that waits and handles it at once. The kernel is asked for a large receive
buffer and for whole trains of datagrams (UDP_GRO): a sender's segmented burst then takes one
receive. Measured on two shared cores, sender beside it: 23 to 33 million reports a second with
trains, 5 to 8 million in single full datagrams, 0.28 million with one report in each.

A malformed datagram is counted, named and dropped whole. Nothing that arrives raises an exception.
"""

import select
import socket
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

from matchbox.errors import BadInput
from matchbox.gaps import Gaps
from matchbox.inbox import END_OF_SESSION, Datagrams, Inbox
from matchbox.membership import (
    SOL_UDP,
    UDP_GRO,
    ask_for_trains,
    grow_receive_buffer,
    open_socket,
)
from matchbox.schema import REPORT

TIMEOUT_S_MAX = 86400
RECEIVE_BUFFER_DEFAULT = 64 << 20
RECEIVE_BUFFER_MAX = 1 << 30
DRAIN_MAX = 1024  # receives before what there is is handed over
ANCILLARY_BYTES = socket.CMSG_SPACE(4)  # the segment size of a train
HEARTBEAT = 0


class Summary(NamedTuple):
    """What a subscriber has seen."""

    stream: str  # identity, or "" before the first datagram
    stream_changes: int
    reports: int  # delivered
    first_sequence: int  # of the first report delivered, or 0
    last_sequence: int  # the highest delivered, or 0
    datagrams: int  # all of them
    heartbeats: int
    gaps: int  # found, filled ones included
    missing: int  # reports still missing
    late: int  # reports that filled a gap
    duplicates: int  # reports that came again, dropped
    early: int  # reports before the first one asked for, dropped
    malformed: int  # datagrams
    foreign: int  # datagrams of a stream that another one has replaced, dropped
    ended: str  # "end of session", "timeout" or "" while open


def quiet(notice: str) -> None:
    """The default for `on_notice`."""


class Subscriber:
    """One receiver of a report stream.

    Args:
        address: `GROUP:PORT` to join, or `HOST:PORT` of this machine to be the one receiver at.
        interface: name or address of the interface to join the group on; default loopback.
        from_: first report_sequence wanted; a later one before it is a gap. None: what comes first.
        timeout: seconds without any datagram after which iteration ends; None: never.
        receive_buffer: bytes to ask the kernel for; `self.receive_buffer` is what it granted.
        trains: ask for whole trains of datagrams where the kernel can.
        on_notice: called with one sentence for each gap, stream change and malformed datagram.

    Raises:
        BadInput: an argument is not what it should be.
        Unavailable: no such interface or address here, or the port is taken.
    """

    def __init__(
        self,
        address: str,
        interface: str | None = None,
        from_: int | None = None,
        timeout: float | None = None,
        *,
        receive_buffer: int = RECEIVE_BUFFER_DEFAULT,
        trains: bool = True,
        on_notice: Callable[[str], None] = quiet,
    ) -> None:
        if from_ is not None and not 1 <= from_ < 1 << 64:
            raise BadInput(f"first sequence {from_}: expected 1 to 2^64 - 1")
        if timeout is not None and not 0 < timeout <= TIMEOUT_S_MAX:
            raise BadInput(f"timeout {timeout}: expected above 0 to {TIMEOUT_S_MAX} seconds")
        if not 1 <= receive_buffer <= RECEIVE_BUFFER_MAX:
            raise BadInput(f"receive buffer {receive_buffer}: expected 1 to {RECEIVE_BUFFER_MAX}")
        self.timeout, self.on_notice = timeout, on_notice
        self.gaps = Gaps(from_)
        self.ended = ""
        self._stream, self._replaced = b"", set[bytes]()
        self._reports = self._first = self._last = 0
        self._datagrams = self._heartbeats = self._malformed = self._foreign = 0
        self._inbox, self._sources = Inbox(), list[tuple[int, tuple[str, int]]]()
        self._socket = open_socket(address, interface)
        self.receive_buffer = grow_receive_buffer(self._socket, receive_buffer)
        self.trains = trains and ask_for_trains(self._socket)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    @property
    def stream(self) -> str:
        """Identity of the stream that is followed; empty before the first datagram."""
        return printable(self._stream)

    @property
    def summary(self) -> Summary:
        gaps = self.gaps
        return Summary(
            stream=self.stream,
            stream_changes=len(self._replaced),
            reports=self._reports,
            first_sequence=self._first,
            last_sequence=self._last,
            datagrams=self._datagrams,
            heartbeats=self._heartbeats,
            gaps=gaps.opened,
            missing=gaps.missing_count,
            late=gaps.late,
            duplicates=gaps.duplicates,
            early=gaps.early,
            malformed=self._malformed,
            foreign=self._foreign,
            ended=self.ended,
        )

    def close(self) -> None:
        """Leave the group."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[np.ndarray]:
        """Batches of new reports until the stream ends or is silent (`self.ended`)."""
        while not self.ended:
            reports = self.receive(self.timeout)
            if reports is None:
                self.ended = "timeout"
            elif reports.size:
                yield reports

    def receive(self, timeout: float | None = None) -> np.ndarray | None:
        """Wait for a datagram, then take all there are.

        Returns the new reports (REPORT array, maybe empty), or None after `timeout` seconds.
        """
        if not self._poll.poll(None if timeout is None else timeout * 1000):
            return None
        self._drain()
        try:
            batches = self._sort_out(self._inbox.parse())
        finally:
            self._datagrams += len(self._inbox)
            self._inbox.clear()
            self._sources.clear()
        return batches[0] if len(batches) == 1 else np.concatenate([np.empty(0, REPORT), *batches])

    def _drain(self) -> None:
        """Move what waits in the socket to the inbox, as far as there is room."""
        inbox, receive = self._inbox, self._socket.recvmsg_into
        for _ in range(DRAIN_MAX):
            if inbox.full:
                break
            try:
                size, ancillary, _, source = receive([inbox.room], ANCILLARY_BYTES)
            except BlockingIOError:
                break
            segment = size
            for level, kind, value in ancillary:
                if (level, kind) == (SOL_UDP, UDP_GRO):
                    segment = int.from_bytes(value[:4], sys.byteorder)
            if not self._sources or self._sources[-1][1] != source:
                self._sources.append((len(inbox), source))
            inbox.add(size, segment)

    def _sort_out(self, datagrams: Datagrams) -> list[np.ndarray]:
        """The new reports of all datagrams, in pieces: datagrams that follow on go together."""
        valid, _, sequences, counts, offsets, reports = datagrams
        messages = np.diff(offsets)
        plain = valid & (messages > 0) & (datagrams.streams == self._stream)
        follows = plain[1:] & plain[:-1]
        follows &= sequences[1:] == sequences[:-1] + messages[:-1].astype(np.uint64)
        heads = [0, *(np.flatnonzero(~follows) + 1).tolist(), len(valid)]
        batches = []
        for index, next_index in pairwise(heads):
            if not valid[index]:
                self._refuse(datagrams, index)
                continue
            sequence = int(sequences[index])
            if not self._on_stream(bytes(datagrams.streams[index]), sequence):
                continue
            gap = self.gaps.expect(sequence)
            if gap:
                self.on_notice(f"gap: reports {gap} are missing ({gap.length})")
            if counts[index] == END_OF_SESSION:
                self.ended = "end of session"
            elif counts[index] == HEARTBEAT:
                self._heartbeats += 1
            else:
                first, last = int(offsets[index]), int(offsets[next_index])
                for part in self.gaps.arrive(sequence, last - first):
                    at = first + part.first - sequence
                    batches.append(self._delivered(reports[at : at + part.length]))
        return batches

    def _refuse(self, datagrams: Datagrams, index: int) -> None:
        self._malformed += 1
        host, port = [source for at, source in self._sources if at <= index][-1]
        fault = self._inbox.fault(datagrams, index)
        self.on_notice(f"malformed datagram from {host}:{port}: {fault}")

    def _on_stream(self, stream: bytes, sequence: int) -> bool:
        """Whether a datagram counts. Another stream is followed, unless it was replaced before."""
        if stream == self._stream:
            return True
        if stream in self._replaced:
            self._foreign += 1
            return False
        if self._stream:
            self._replaced.add(self._stream)
            self.gaps.restart(sequence)
            names = f"{printable(self._stream)} to {printable(stream)}"
            self.on_notice(f"stream changed from {names} at report {sequence}")
        self._stream = stream
        return True

    def _delivered(self, reports: np.ndarray) -> np.ndarray:
        self._reports += len(reports)
        self._first = self._first or int(reports["report_sequence"][0])
        self._last = max(self._last, int(reports["report_sequence"][-1]))
        return reports


def printable(stream: bytes) -> str:
    """A stream's name without trailing blanks and with anything unprintable escaped."""
    return stream.rstrip().decode("latin-1").encode("unicode_escape").decode("ascii")
