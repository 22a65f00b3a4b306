"""Order entry's listener: accepts TCP clients and hands them to the data plane. Plain Python.

    entry = OrderEntry(("127.0.0.1", 9001), connections)  # the port is open, nobody accepted yet
    entry.start()                                         # on a thread of its own
    entry.stop()                                          # no further client
    entry.close()                                         # once the data plane's threads have ended

A client that finds the table full gets one report, rejected with report_sequence 0 and reason
CONNECTIONS_FULL, and is closed in order: its bytes are read and forgotten until it has closed too,
for a short time.
"""

import errno
import selectors
import socket
import threading
import time
from collections import deque

import numpy as np

from matchbox.atomics import U
from matchbox.clients import statuses
from matchbox.connections import Connections, Ending, free
from matchbox.constants import OPERATOR_ACCOUNT, Kind, Reason, ReportFlag
from matchbox.decode.register import NO_LOGIN, register
from matchbox.errors import Unavailable
from matchbox.schema import REPORT

BACKLOG = 1024
REFUSED_MAX = 64
REFUSED_LINGER_S = 1.0
CLOSE_LINGER_S = 1.0
STARVED_PAUSE_S = 0.1
KEEPALIVE_IDLE_S = 60

STARVED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def refusal(reason: Reason) -> bytes:
    """The one report of a connection that never was."""
    report = np.zeros(1, REPORT)
    report["kind"], report["reason"], report["flags"] = Kind.REJECTED, reason, ReportFlag.LAST
    return report.tobytes()


def has_bytes(sock: socket.socket) -> bool:
    """Whether there is something that was not read. The end of the stream is nothing."""
    try:
        return bool(sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except OSError:
        return False


class Parting:
    """Sockets to be closed in order: all was sent; wait a while for the clients to close too."""

    def __init__(self, linger_s: float) -> None:
        self._linger_s = linger_s
        self._selector = selectors.DefaultSelector()
        self._deadlines: deque[tuple[float, socket.socket]] = deque()

    def __len__(self) -> int:
        return len(self._deadlines)

    def add(self, sock: socket.socket) -> None:
        """Take the socket over and close its sending side."""
        sock.setblocking(False)
        try:
            sock.shutdown(socket.SHUT_WR)
        except OSError:
            sock.close()
            return
        self._selector.register(sock, selectors.EVENT_READ)
        self._deadlines.append((time.monotonic() + self._linger_s, sock))

    def step(self, timeout_s: float = 0.0) -> None:
        """Forget what clients still send; close the sockets of those that are done or late."""
        for key, _ in self._selector.select(timeout_s):
            try:
                if key.fileobj.recv(1 << 16):  # type: ignore[union-attr]
                    continue
            except BlockingIOError:
                continue
            except OSError:
                pass
            self._selector.unregister(key.fileobj)
            key.fileobj.close()  # type: ignore[union-attr]
        now = time.monotonic()
        while self._deadlines and (
            self._deadlines[0][0] < now or self._deadlines[0][1].fileno() < 0
        ):
            self.close_oldest()

    def close_oldest(self) -> None:
        _, sock = self._deadlines.popleft()
        if sock.fileno() >= 0:
            self._selector.unregister(sock)
            sock.close()

    def close(self) -> None:
        while self._deadlines:
            self.close_oldest()
        self._selector.close()


class OrderEntry:
    """A listening socket and the thread that accepts from it.

    Attributes:
        address: where it listens, with the port that was really taken.
        accepted, refused, failed: clients handed over, turned away, lost between; for metrics.
    """

    def __init__(
        self, listen: tuple[str, int], connections: Connections, account: int = OPERATOR_ACCOUNT
    ) -> None:
        """Take the port. Every client acts as `account`. Raises Unavailable."""
        try:
            self._listener = socket.create_server(listen, backlog=BACKLOG)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise Unavailable(
                f"{listen[0]}:{listen[1]}: {reason}: expected a free port here"
            ) from None
        self._listener.setblocking(False)
        self.address: tuple[str, int] = self._listener.getsockname()
        self.accepted = self.refused = self.failed = 0
        self._connections, self._account = connections, account
        self._parting = Parting(REFUSED_LINGER_S)
        self._stopping = threading.Event()
        self._waker, self._wake = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="order-entry", daemon=True)

    def start(self) -> None:
        """Accept clients from now on."""
        # Compiles, so that the first client does not wait for it. Registers nothing: descriptor -1.
        assert register(self._connections, -1, U(0)) == NO_LOGIN
        self._thread.start()

    def stop(self) -> None:
        """Accept no further client. Those who were accepted stay. Harmless if stopped already."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._waker.send(b"\0")
        if self._thread.ident is not None:
            self._thread.join()
        for sock in (self._listener, self._waker, self._wake):
            sock.close()
        self._parting.close()

    def close(self, linger_s: float = CLOSE_LINGER_S, halted: bool = False) -> int:
        """Close every connection, and the table. The data plane's threads have ended.

        Clients whose every byte was answered see an end of stream, the others a reset: nobody
        takes an incomplete stream for a complete one. Returns how many were reset.

        `halted`: commands that were taken may have no answer, so only who is done is complete.
        """
        self.stop()
        parting, reset = Parting(linger_s), 0
        for status in statuses(self._connections):
            if status.descriptor < 0:
                continue
            sock = socket.socket(fileno=status.descriptor)
            idle = not halted and status.ending == Ending.NONE and not status.undecoded
            whole = status.drained or (idle and not has_bytes(sock))
            if status.backlog or not whole:
                abort = np.array([1, 0], np.int32).tobytes()
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, abort)
                sock.close()
                reset += 1
            else:
                parting.add(sock)
        while parting:
            parting.step(linger_s)
        parting.close()
        free(self._connections)
        return reset

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            while not self._stopping.is_set():
                selector.select(STARVED_PAUSE_S if self._parting else None)
                while not self._stopping.is_set() and self._accept():
                    pass
                self._parting.step()

    def _accept(self) -> bool:
        """Accept one client. False if there was none to be had."""
        try:
            sock, _ = self._listener.accept()
        except BlockingIOError:
            return False
        except OSError as error:
            self.failed += 1
            if error.errno in STARVED:
                self._stopping.wait(STARVED_PAUSE_S)
                return False
            return True
        try:
            self._hand_over(sock)
        except OSError:  # the client has gone meanwhile
            self.failed += 1
            sock.close()
        return True

    def _hand_over(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)
        if register(self._connections, sock.fileno(), U(self._account)) != NO_LOGIN:
            sock.detach()
            self.accepted += 1
            return
        self.refused += 1
        sock.send(refusal(Reason.CONNECTIONS_FULL))
        if len(self._parting) == REFUSED_MAX:
            self._parting.close_oldest()
        self._parting.add(sock)
