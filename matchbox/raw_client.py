"""A client of the raw order entry port: commands out, own reports back. Plain Python.

    with RawClient("127.0.0.1", 9001) as client:
        client.send(commands)          # COMMAND array, as fast as the exchange takes it
        client.finish()                # until every report of them is here
    client.reports                     # REPORT array, in order

What comes back is read while sending, so neither side ever waits for the other to read first. The
end is exact and needs no guess: the client closes its sending side, the exchange answers all that
came before and then closes its own.
"""

import select
import socket
import time
from collections.abc import Callable
from typing import Self

import numpy as np

from matchbox.constants import CommandType, Reason
from matchbox.decode.wire import encode
from matchbox.errors import BadInput, MatchboxError, Unavailable
from matchbox.printer import REASONS
from matchbox.schema import CANCEL_BYTES, COMMAND_BYTES, REPORT, REPORT_BYTES

SEND_BYTES = 1 << 16
RECEIVE_BYTES = 1 << 18
CONNECT_TIMEOUT_S = 5.0
FINISH_TIMEOUT_S = 30.0

OnReports = Callable[[np.ndarray], None]


def refusal(where: str, report: np.void) -> MatchboxError:
    """What a report without a sequence says: the exchange takes no further command."""
    reason = int(report["reason"])
    if reason == Reason.CONNECTIONS_FULL:
        return Unavailable(f"{where}: as many clients are connected as the exchange takes")
    name = REASONS.get(reason, f"reason {reason}").replace("_", " ")
    place = f"type {report['contra']} at byte {report['quantity']} of what was sent"
    return BadInput(f"{where}: refused, {name}: {place}")


class RawClient:
    """One connection.

    Args:
        host, port: of the exchange.
        on_reports: called with each REPORT array that comes; without it they are kept.
    Attributes:
        report_count: reports received so far.
    Raises:
        Unavailable: nobody listens there, or the connection broke.
    """

    def __init__(self, host: str, port: int, on_reports: OnReports | None = None) -> None:
        self.where = f"{host}:{port}"
        self.report_count = 0
        self._on_reports, self._kept, self._rest = on_reports, list[np.ndarray](), b""
        self._closed = False
        try:
            self._socket = socket.create_connection((host, port), CONNECT_TIMEOUT_S)
        except OSError as error:
            raise Unavailable(
                f"{self.where}: {error.strerror or error}: expected an exchange that listens there"
            ) from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)
        self._poll = select.poll()

    @property
    def reports(self) -> np.ndarray:
        """All reports so far, if they are kept."""
        return np.concatenate([np.empty(0, REPORT), *self._kept])

    def send(
        self,
        commands: np.ndarray,
        due_ns: np.ndarray | None = None,
        advance: Callable[[int], None] | None = None,
    ) -> None:
        """Send commands, reading what comes back.

        Args:
            commands: COMMAND[n] or RECORD[n].
            due_ns: i64[n], ascending, when each may leave, counted from now; None: at once.
            advance: called with how many more have left.
        """
        data = encode(commands)
        cancels = commands["type"] == CommandType.CANCEL
        ends = np.cumsum(np.where(cancels, CANCEL_BYTES, COMMAND_BYTES))
        view, start = memoryview(data), time.monotonic_ns()
        sent = told = 0
        while sent < len(data):
            due = len(data)
            if due_ns is not None:
                elapsed = time.monotonic_ns() - start
                count = int(np.searchsorted(due_ns, elapsed, "right"))
                due = int(ends[count - 1]) if count else 0
            sent += self._send(view[sent : min(due, sent + SEND_BYTES)])
            if advance and sent:
                left = int(np.searchsorted(ends, sent, "right"))
                advance(left - told)
                told = left
            wait_ms = 1.0 if sent >= due else None
            self._wait(wanting_to_send=sent < due, timeout_ms=wait_ms if sent < len(data) else 0)
            self._receive()
            if self._closed:
                raise Unavailable(f"{self.where}: the exchange closed the connection")

    def finish(self, timeout_s: float = FINISH_TIMEOUT_S) -> None:
        """Send no more and wait for every report. Raises Unavailable if they stop coming."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise self._broken(error) from None
        while not self._closed:
            before = self.report_count
            ready = self._wait(wanting_to_send=False, timeout_ms=timeout_s * 1000)
            self._receive()
            if not ready and before == self.report_count:
                raise Unavailable(f"{self.where}: no further report within {timeout_s:g} s")

    def wait(self, timeout_s: float) -> None:
        """Take the reports that come within a time, as soon as there are any."""
        self._wait(wanting_to_send=False, timeout_ms=timeout_s * 1000)
        self._receive()

    def _wait(self, wanting_to_send: bool, timeout_ms: float | None) -> bool:
        events = select.POLLIN | (select.POLLOUT if wanting_to_send else 0)
        self._poll.register(self._socket, events)
        return bool(self._poll.poll(timeout_ms))

    def _send(self, data: memoryview) -> int:
        if not data:
            return 0
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            self._receive()  # why it was closed, if the exchange said so
            raise self._broken(error) from None

    def _receive(self) -> None:
        """Take all that has come."""
        while not self._closed:
            try:
                data = self._socket.recv(RECEIVE_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                raise self._broken(error) from None
            if not data:
                self._closed = True
                return
            data = self._rest + data
            whole = len(data) - len(data) % REPORT_BYTES
            self._rest = data[whole:]
            if whole:
                self._take(np.frombuffer(data[:whole], REPORT))

    def _take(self, reports: np.ndarray) -> None:
        refused = reports[reports["report_sequence"] == 0]
        if refused.size:
            raise refusal(self.where, refused[0])
        self.report_count += len(reports)
        if self._on_reports:
            self._on_reports(reports)
        else:
            self._kept.append(reports)

    def _broken(self, error: OSError) -> MatchboxError:
        return Unavailable(f"{self.where}: {error.strerror or error}")

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
