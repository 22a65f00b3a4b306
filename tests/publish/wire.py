"""What tests of the publication share: their own addresses, reports, a naive writer of
datagrams."""

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from matchbox.constants import Kind
from matchbox.schema import OUTPUT, REPORT

HOST = f"127.9.{os.getpid() >> 8 & 0xFF}.{os.getpid() & 0xFF}"
"""A loopback address that no other test process uses, so any port free on it stays free."""

REPORT_STRUCT = struct.Struct("<QQQqqIBBBB")


@contextmanager
def receiver(timeout: float = 5.0) -> Iterator[socket.socket]:
    """A UDP socket on a free port, large enough for every test's burst."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        sock.bind((HOST, 0))
        sock.settimeout(timeout)
        yield sock


def address_of(sock: socket.socket) -> str:
    host, port = sock.getsockname()
    return f"{host}:{port}"


def free_address() -> str:
    with receiver() as sock:
        return address_of(sock)


@contextmanager
def free_group() -> Iterator[str]:
    """A multicast group at a port that is kept from other tests while it is used."""
    with receiver() as sock:
        yield f"239.255.{os.getpid() >> 8 & 0xFF}.{os.getpid() & 0xFF}:{sock.getsockname()[1]}"


def datagrams(sock: socket.socket, count: int) -> list[bytes]:
    return [sock.recv(1 << 16) for _ in range(count)]


def is_silent(sock: socket.socket) -> bool:
    sock.setblocking(False)
    try:
        sock.recv(1 << 16)
    except BlockingIOError:
        return True
    return False


def outbox(count: int, first: int = 1, seed: int = 1) -> np.ndarray:
    """OUTPUT entries with dense sequences from `first` and any content."""
    random = np.random.default_rng(seed)
    entries = np.frombuffer(random.bytes(count * OUTPUT.itemsize), OUTPUT).copy()
    entries["report_sequence"] = np.uint64(first) + np.arange(count, dtype=np.uint64)
    entries["kind"] = random.integers(1, 11, count)
    return entries


def words(entries: np.ndarray) -> np.ndarray:
    return entries.view(np.uint64)


def reports_of(entries: np.ndarray) -> np.ndarray:
    """The REPORT part of OUTPUT entries, as they are."""
    rows = entries.view(np.uint8).reshape(-1, OUTPUT.itemsize)[:, : REPORT.itemsize]
    return np.ascontiguousarray(rows).view(REPORT).reshape(-1)


def public(reports: np.ndarray) -> np.ndarray:
    """The readable twin of `moldudp64.public_masks`."""
    shown = reports.copy()
    shown["contra"][shown["kind"] == Kind.ACCEPTED] = 0
    rejected = shown["kind"] == Kind.REJECTED
    for field in ("reference", "contra", "price", "quantity", "instrument", "side", "reason"):
        shown[field][rejected] = 0
    return shown


def datagram(stream: bytes, sequence: int, count: int, *messages: bytes) -> bytes:
    """One datagram by the book; `count` is whatever the test says."""
    header = stream.ljust(10) + struct.pack(">QH", sequence, count)
    return header + b"".join(struct.pack(">H", len(message)) + message for message in messages)


def mold(reports: np.ndarray, each: int = 29, stream: bytes = b"TEST") -> list[bytes]:
    """Datagrams of up to `each` reports, written by the readable twin of the framing kernel."""
    return [
        datagram(
            stream,
            int(part["report_sequence"][0]),
            len(part),
            *(report.tobytes() for report in part),
        )
        for part in (reports[at : at + each] for at in range(0, len(reports), each))
    ]
