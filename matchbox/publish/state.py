"""State of a publisher: its arrays, what each word means, and the send buffer. Plain Python.

The buffer holds a burst: datagrams end to end, every one full but the last. Layout and stride never
change, so `allocate` writes streams and message lengths once, and an iovec for each place.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from matchbox.atomics import U
from matchbox.memory import address_of, huge
from matchbox.schema import MOLD_LAYOUT, REPORT_BYTES

HEADER_BYTES = MOLD_LAYOUT.size
STREAM_BYTES = MOLD_LAYOUT.offsets()["sequence"]
LENGTH_BYTES = 2
MESSAGE_BYTES = LENGTH_BYTES + REPORT_BYTES
MESSAGES_MAX = 0xFFFE
"""Most messages a count can tell from the end of session."""

HEARTBEAT = U(0)
END_OF_SESSION = U(0xFFFF)

IP_UDP_BYTES = 28  # IPv4 header without options, UDP header
PAYLOAD_MAX = 0xFFFF - IP_UDP_BYTES
SEGMENTS_MAX = 64  # UDP_MAX_SEGMENTS of all kernels that know segmentation
MESSAGE_HEADER_BYTES = 64  # struct mmsghdr
VECTOR_WORDS = U(2)  # struct iovec: address, length
WORD_BYTES = 8


class Mode(IntEnum):
    """How a burst leaves. Only ever lowered, when the kernel or device turns out not to segment."""

    NONE = 0  # a send for each datagram
    MMSG = 1  # one sendmmsg
    GSO = 2  # one send, cut into datagrams by the kernel or the device


class Fault(IntEnum):
    """What `publish` returns. Anything but `NONE` is a broken invariant: the engine halts."""

    NONE = 0
    NOT_DENSE = 1  # a report's sequence is not the last one plus one; nothing of its burst was sent


class Setting(IntEnum):
    """Index in `Publisher.settings`."""

    DESCRIPTOR = 0  # of the connected, nonblocking socket
    BUFFER = 1  # address of `buffer`
    MESSAGES = 2  # address of `messages`
    ZERO = 3  # address of four zero bytes
    DATAGRAM_REPORTS = 4  # reports in a full datagram
    BURST_DATAGRAMS = 5  # datagrams in the buffer at the most
    HEARTBEAT_NS = 6  # quiet time after which one is due


class Cell(IntEnum):
    """Index in `Publisher.cells`. Written by the publishing thread only."""

    NEXT = 0  # sequence of the next report
    MODE = 1  # `Mode`
    QUIET_SEQUENCE = 2  # NEXT as the last heartbeat check saw it,
    QUIET_SINCE_NS = 3  # and when it first saw that or last sent a heartbeat


class Counter(IntEnum):
    """Index in `Publisher.counters`. Written by the publishing thread, read by anyone."""

    REPORTS = 0  # framed
    DATAGRAMS = 1  # taken by the kernel, heartbeats and ends included
    SENDS = 2  # system calls
    HEARTBEATS = 3  # tried
    DROPPED = 4  # datagrams the kernel did not take
    REFUSED = 5  # times that a unicast receiver turned out to be gone
    FALLBACKS = 6  # 1 if segmentation failed and was given up
    LAST_ERRNO = 7  # of the last datagram dropped, or of the fallback


class Publisher(NamedTuple):
    settings: np.ndarray  # i64[7], by `Setting`, constant
    cells: np.ndarray  # u64[4], by `Cell`
    counters: np.ndarray  # u64[8], by `Counter`
    buffer: np.ndarray  # u8: BURST_DATAGRAMS full datagrams end to end
    messages: np.ndarray  # u64[BURST_DATAGRAMS * 8]: one struct mmsghdr for each
    vectors: np.ndarray  # u64[BURST_DATAGRAMS * 2]: its struct iovec


def allocate(
    descriptor: int, stream: bytes, next_sequence: int, reports: int, heartbeat_s: float, mode: Mode
) -> Publisher:
    """State for the kernels, with all that never changes already in the send buffer."""
    size = HEADER_BYTES + reports * MESSAGE_BYTES
    burst = min(SEGMENTS_MAX, PAYLOAD_MAX // size)
    buffer = huge(burst * size, np.uint8, prefault=True)
    datagrams = buffer.reshape(burst, size)
    datagrams[:, :STREAM_BYTES] = np.frombuffer(stream, np.uint8)
    lengths = datagrams[:, HEADER_BYTES:].reshape(burst, reports, MESSAGE_BYTES)
    lengths[..., :LENGTH_BYTES] = tuple(REPORT_BYTES.to_bytes(LENGTH_BYTES, "big"))

    vectors = np.zeros((burst, 2), np.uint64)  # address, length
    vectors[:, 0] = address_of(buffer) + np.arange(burst) * size
    vectors[:, 1] = size
    messages = np.zeros((burst, MESSAGE_HEADER_BYTES // WORD_BYTES), np.uint64)
    messages[:, 2] = address_of(vectors) + np.arange(burst) * vectors.itemsize * 2  # msg_iov
    messages[:, 3] = 1  # msg_iovlen

    cells = np.zeros(len(Cell), np.uint64)
    cells[[Cell.NEXT, Cell.QUIET_SEQUENCE]] = next_sequence
    cells[Cell.MODE] = mode
    settings = np.zeros(len(Setting), np.int64)
    settings[Setting.DESCRIPTOR] = descriptor
    settings[Setting.BUFFER] = address_of(buffer)
    settings[Setting.MESSAGES] = address_of(messages)
    settings[Setting.ZERO] = address_of(messages)  # msg_name of the first: null
    settings[Setting.DATAGRAM_REPORTS] = reports
    settings[Setting.BURST_DATAGRAMS] = burst
    settings[Setting.HEARTBEAT_NS] = int(heartbeat_s * 1e9)
    counters = np.zeros(len(Counter), np.uint64)
    return Publisher(settings, cells, counters, buffer, messages.reshape(-1), vectors.reshape(-1))
