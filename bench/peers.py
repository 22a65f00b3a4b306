"""The other ends of the wire, for benches: a client that sends at full speed and a subscriber that
counts.

Both are kernels over libc, so that what is measured is the engine and not its peer. They run in
processes of their own, as real peers would: `python -m bench.peers client PORT FILE`, `…
subscriber GROUP:PORT`.
"""

import json
import socket
import struct
import sys

import numpy as np

from matchbox import libc
from matchbox.atomics import load_u16_big, load_u64_big
from matchbox.jit import kernel
from matchbox.memory import address_of, huge
from matchbox.schema import REPORT_BYTES

SEND_BYTES = 1 << 16
RECEIVE_BYTES = 1 << 18
QUIET_MS = 400

HEADER_BYTES, MESSAGE_BYTES, END_OF_SESSION = 20, 2 + REPORT_BYTES, 0xFFFF
UDP_GRO, SO_RCVBUFFORCE = 104, 33
RECEIVE_BUFFER_BYTES = 64 << 20


@kernel(entry=True)
def exchange_bytes(fd, data, size, scratch, pollfd, timespec, result):
    """Send all of `data` while reading whatever comes back, until nothing has come for QUIET_MS.

    result, i64[4]: ns at the first byte sent, the last sent, the last received; bytes received.
    """
    sent = 0
    result[0] = libc.clock_ns(libc.CLOCK_MONOTONIC, timespec)
    result[2] = result[0]
    while True:
        progress = False
        if sent < size:
            n = libc.send(
                fd, data + sent, min(size - sent, SEND_BYTES), libc.MSG_DONTWAIT | libc.MSG_NOSIGNAL
            )
            if n > 0:
                sent += n
                progress = True
                if sent == size:
                    result[1] = libc.clock_ns(libc.CLOCK_MONOTONIC, timespec)
        n = libc.recv(fd, scratch, RECEIVE_BYTES, libc.MSG_DONTWAIT)
        if n > 0:
            result[3] += n
            result[2] = libc.clock_ns(libc.CLOCK_MONOTONIC, timespec)
            progress = True
        elif n == 0:
            return False
        if not progress and libc.poll(pollfd, 1, QUIET_MS) == 0 and sent == size:
            return True


def client(port: int, path: str) -> dict[str, float]:
    """Send a wire file to 127.0.0.1:port; returns commands' bytes, reports and seconds."""
    data = np.fromfile(path, np.uint8)
    scratch, times = huge(RECEIVE_BYTES, np.uint8), np.zeros(2, np.int64)
    result = np.zeros(4, np.int64)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pollfd = np.frombuffer(bytearray(struct.pack("ihh", connection.fileno(), 1, 0)), np.uint8)
        arguments = (address_of(scratch), address_of(pollfd), address_of(times), result)
        exchange_bytes(connection.fileno(), address_of(data), 0, *arguments)
        print("ready", flush=True)
        sys.stdin.readline()
        result[:] = 0
        alive = exchange_bytes(connection.fileno(), address_of(data), data.size, *arguments)
    return {
        "alive": bool(alive),
        "reports": int(result[3]) // REPORT_BYTES,
        "sent_s": (result[1] - result[0]) / 1e9,
        "done_s": (result[2] - result[0]) / 1e9,
    }


@kernel(entry=True)
def count_reports(fd, buffer, pollfd, quiet_ms, timespec, result):
    """Receive datagrams until end of session or silence after the first.

    With UDP_GRO one receive may hold many datagrams; their headers tell where each ends.
    result, i64[6]: reports, datagrams, reports missing, next sequence, ns at the first and the
    last receive.
    """
    while True:
        length = libc.recv(fd, buffer, RECEIVE_BYTES, libc.MSG_DONTWAIT)
        if length <= 0:
            if libc.poll(pollfd, 1, quiet_ms) == 0 and result[0] > 0:
                return
            continue
        result[5] = libc.clock_ns(libc.CLOCK_MONOTONIC, timespec)
        if result[4] == 0:
            result[4] = result[5]
        at = 0
        while at < length:
            sequence = np.int64(load_u64_big(buffer + at + 10))
            count = np.int64(load_u16_big(buffer + at + 18))
            if count == END_OF_SESSION:
                return
            if result[3] != 0 and sequence > result[3]:
                result[2] += sequence - result[3]
            result[3] = sequence + count
            result[0] += count
            result[1] += 1
            at += HEADER_BYTES + count * MESSAGE_BYTES


def subscriber(address: str) -> dict[str, float]:
    """Count what a group on the loopback interface carries until it ends or falls silent."""
    group, port = address.rsplit(":", 1)
    buffer, times = huge(RECEIVE_BYTES, np.uint8), np.zeros(2, np.int64)
    result = np.zeros(6, np.int64)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
        receiver.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
        receiver.bind((group, int(port)))
        if int(group.split(".")[0]) >= 224:
            member = socket.inet_aton(group) + socket.inet_aton("127.0.0.1")
            receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
        pollfd = np.frombuffer(bytearray(struct.pack("ihh", receiver.fileno(), 1, 0)), np.uint8)
        print("ready", flush=True)
        count_reports(
            receiver.fileno(),
            address_of(buffer),
            address_of(pollfd),
            QUIET_MS,
            address_of(times),
            result,
        )
    return {
        "reports": int(result[0]),
        "datagrams": int(result[1]),
        "missing": int(result[2]),
        "seconds": (result[5] - result[4]) / 1e9,
    }


if __name__ == "__main__":
    role, *arguments = sys.argv[1:]
    print(
        json.dumps(
            client(int(arguments[0]), arguments[1])
            if role == "client"
            else subscriber(arguments[0])
        )
    )
