"""Order entry as a whole, for tests: listener, table, the stand-in engine, and clients."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from matchbox import clients
from matchbox import connections as table
from matchbox.connections import Ending
from matchbox.constants import CommandType, Kind, ReportFlag
from matchbox.order_entry import OrderEntry
from matchbox.schema import CANCEL_BYTES, COMMAND, RECORD, REPORT
from tests.decode import desk as desks
from tests.decode.desk import Desk

PATIENCE_S = 30.0
"""How long a test waits for what must happen."""

TYPES = (1, 2, 3, 4, 7, 8)
LAYOUTS = ("shared", "dedicated")


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.001)


class Venue:
    """A running order entry.

    Attributes:
        connections, desk, entry: its parts.
    """

    def __init__(
        self,
        layout: str,
        slots: int,
        count: int,
        out_bytes: int,
        last_login: int = 0,
        last_time_ns: int = 0,
    ) -> None:
        self.connections = table.allocate(count, out_bytes, last_login, last_time_ns)
        self.desk: Desk = desks.desk(self.connections, slots)
        self.entry = OrderEntry(("127.0.0.1", 0), self.connections)
        kernels = [(desks.run_shared, 1)]
        if layout == "dedicated":
            kernels = [(desks.run_decode, 1), (desks.run_match,)]
        # A first call that ends at once: no client has to wait for the compiler.
        self.desk.cells[int(desks.STOP)] = 2
        for run, *rest in kernels:
            run(self.desk, *rest)
        self.desk.cells[int(desks.STOP)] = 0
        self._threads = [
            threading.Thread(target=run, args=(self.desk, *rest)) for run, *rest in kernels
        ]

    def start(self) -> None:
        self.entry.start()
        for thread in self._threads:
            thread.start()

    def stop(self) -> int:
        """Stop decoding, then matching, then close. Returns how many connections were reset."""
        self.entry.stop()
        for stop in (1, 2):
            self.desk.cells[int(desks.STOP)] = stop
            self._threads[min(stop, len(self._threads)) - 1].join()
        return self.entry.close(linger_s=0.05)

    def connect(self, receive_bytes: int = 0) -> socket.socket:
        client = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_bytes:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        client.settimeout(PATIENCE_S)
        client.connect(self.entry.address)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return client

    @property
    def commands(self) -> int:
        return int(self.desk.cells[int(desks.COMMANDS)])

    @property
    def counters(self) -> dict[str, int]:
        return clients.counters(self.connections)

    @property
    def records(self) -> np.ndarray:
        """RECORDs that came through the ring so far, as far as they were kept."""
        return self.desk.kept[: 8 * int(self.desk.cells[int(desks.KEPT)])].view(RECORD)

    def count(self, ending: Ending) -> int:
        return self.counters[f"closed_{ending.name.lower()}"]


@contextmanager
def venue(
    layout: str = "shared",
    slots: int = 1 << 10,
    count: int = 8,
    out_bytes: int = 1 << 20,
    **log: int,
) -> Iterator[Venue]:
    running = Venue(layout, slots, count, out_bytes, **log)
    running.start()
    try:
        yield running
    finally:
        running.stop()


def commands(count: int, seed: int = 1, types: tuple[int, ...] = TYPES) -> np.ndarray:
    """COMMANDs with any content; `price`, which the stand-in takes for a login, is 0."""
    random = np.random.default_rng(seed)
    made = np.frombuffer(random.bytes(count * COMMAND.itemsize), COMMAND).copy()
    made["type"] = random.choice(types, count)
    made["price"] = 0
    return made


def wire(made: np.ndarray) -> bytes:
    """Commands as a client sends them."""
    return b"".join(
        row.tobytes()[: CANCEL_BYTES if row["type"] == CommandType.CANCEL else None] for row in made
    )


def as_decoded(made: np.ndarray) -> np.ndarray:
    """Commands as the record holds them, but for stamps: the tail of a cancel is zero."""
    decoded = made.copy()
    rows = decoded.view(np.uint8).reshape(-1, COMMAND.itemsize)
    rows[made["type"] == CommandType.CANCEL, CANCEL_BYTES:] = 0
    return decoded


def echoes(made: np.ndarray) -> np.ndarray:
    """What the stand-in reports of commands whose price is 0; sequences and references 0."""
    decoded = as_decoded(made)
    reports = np.zeros(len(made), REPORT)
    reports["contra"] = decoded["order_id"]
    reports["quantity"] = decoded["quantity"]
    reports["instrument"] = decoded["instrument"]
    reports["kind"], reports["flags"] = Kind.ACCEPTED, ReportFlag.LAST
    reports["side"] = decoded["type"]
    return reports


def receive(client: socket.socket, count: int) -> np.ndarray:
    """The next `count` reports; fewer if the stream ends."""
    received = bytearray()
    while len(received) < count * REPORT.itemsize:
        part = client.recv(min(1 << 16, count * REPORT.itemsize - len(received)))
        if not part:
            break
        received += part
    assert len(received) % REPORT.itemsize == 0
    return np.frombuffer(bytes(received), REPORT)


def receive_all(client: socket.socket) -> np.ndarray:
    """Reports until the end of the stream."""
    return receive(client, 1 << 40)


def anonymous(reports: np.ndarray) -> np.ndarray:
    """Without sequences and references, which depend on other clients."""
    reports = reports.copy()
    reports["report_sequence"] = reports["reference"] = 0
    return reports


def assert_echoes(reports: np.ndarray, made: np.ndarray) -> None:
    assert len(reports) == len(made)
    assert (np.diff(reports["report_sequence"].astype(np.int64)) > 0).all()
    assert (anonymous(reports) == echoes(made)).all()
