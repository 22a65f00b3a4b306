"""The table of order entry connections: what three threads know of each TCP client. Plain Python.

A connection has a *slot* while it lives and a *login* for ever: u32, generation * capacity + slot,
so the slot is `login & (capacity - 1)`. 0 is none. No login is given out twice in a log: recovery
passes the largest one it has read, and every new one is larger.

There are three owners, and each writes its own cells only, on cache lines of their own. What others
read is stored with a release, after all that belongs to it, and holds a login, so that a slot's
former life is never mistaken for this one:

    owner     array     cells of a slot (8 words)                                 read by
    control   control   OPENED login (release); descriptor, account               decoder, matcher
    decoder   intake    in buffer, place in the client's stream, `Phase`          -
              endings   ENDED login (release); position, why and where            matcher
                        CLOSED login (release)                                    control
    matcher   outs      out buffer, `Fate`                                        -
              progress  BACKLOG (release); DROPPED login (release), its cause     decoder
                        DRAINED login (release)                                   decoder

The life of a connection:

    1  control  takes the lowest free slot (OPENED == CLOSED), stores descriptor and account, then
                OPENED = login, and only then registers the descriptor with both epolls. From here
                on the descriptor is not control's.
    2  decoder  gets the first event of `login`, reads OPENED and takes the connection over. All its
                commands carry the login; at the first one the matcher takes it over too.
    3  decoder  meets the end of the input, or a bad message: stores why, and the ring position that
                follows the last command, then ENDED = login, then raises the count of endings.
    4  matcher  sees the count. Past that position it sends what waits, and a reject if there is one
                to make, shuts the sending side, and stores DRAINED = login. From here on it does
                not touch the descriptor.
    5  decoder  sees DRAINED, and the client's own end or that its time is up: closes the
                descriptor, stores CLOSED = login. The slot is free.

A client that must go (it did not read its reports, or a send failed) is dropped by the matcher: it
stores why, then DROPPED = login, and shuts both directions. That wakes the decoder; 3 to 5 follow.
What a client sent before it went away is executed; of one that was too slow nothing more is taken.
Nobody waits for anybody in any step.

Both epolls are edge triggered, and their events carry the login. The matcher's tells which sockets
can be written again. It is itself in the decoder's, so that a thread which does both waits in one
place. A matcher on a thread of its own may poll `OUT_EPOLL` where it parks.

Memory is bounded by capacity * (64 KiB + out_bytes): by default 256 * (64 KiB + 1 MiB) = 272 MiB of
addresses, of which only pages that were touched are real. A buffer that runs empty starts again at
its first byte, so a client that keeps up costs a few pages.
"""

import ctypes
import os
import select
import sys
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from matchbox import bitset
from matchbox.atomics import U
from matchbox.errors import BadInput
from matchbox.jit import kernel
from matchbox.libc import EPOLL_EVENT_BYTES
from matchbox.memory import address_of, sparse
from matchbox.schema import COMMAND_BYTES, REPORT_BYTES

CONNECTIONS_MAX = 256
CONNECTIONS_LIMIT = 1 << 14
IN_BYTES = 1 << 16
OUT_BYTES_DEFAULT = 1 << 20
LOGIN_MAX = (1 << 32) - 1

EVENTS_MAX = 64
EVENT_BYTES_MAX = 16
SCRATCH_BYTES = 2 * EVENTS_MAX * EVENT_BYTES_MAX + 256
EPOLL_CTL_ADD = 1

LINE_WORDS = 8
LINE_SHIFT = U(3)
assert 1 << int(LINE_SHIFT) == LINE_WORDS

# control
OPENED, DESCRIPTOR, ACCOUNT = U(0), U(1), U(2)

# intake; DESCRIPTOR as in control. Bytes [START, END) of the buffer were received and not decoded
# yet; the first of them is byte TAKEN of all that the client has sent. STAMP: login, account in the
# high half. DEADLINE: steady ns.
LOGIN, STAMP, START, END, TAKEN, PHASE, DEADLINE = U(0), U(2), U(3), U(4), U(5), U(6), U(7)

# endings
ENDED, POSITION, REASON, TYPE, OFFSET, CLOSED = U(0), U(1), U(2), U(3), U(4), U(5)

# outs; LOGIN and DESCRIPTOR as in intake. FILL bytes from READ on wait to be sent; the next report
# goes to WRITE.
WRITE, READ, FILL, FATE = U(2), U(3), U(4), U(5)

# progress
BACKLOG, DROPPED, DRAINED, CAUSE = U(0), U(1), U(2), U(3)

# cells: the decoder's own, what it tells the matcher, the matcher's own
LAST_TIME_NS, TURN, STALLED, ENDINGS, ENDINGS_SEEN, REACHED = U(0), U(1), U(2), U(16), U(32), U(33)
CELL_WORDS = 64


class Phase(IntEnum):
    """How the decoder regards a connection."""

    CLOSED = 0
    OPEN = 1
    HELD = 2  # whole messages wait in the buffer, for room in the ring or for reports
    ENDED = 3  # no further command; what comes is discarded
    LINGERING = 4  # the same, and the matcher has drained it
    SILENT = 5  # nothing more can come


class Fate(IntEnum):
    """How the matcher regards a connection."""

    LIVE = 1
    LEAVING = 2  # its last report is in the buffer
    GONE = 3  # gets nothing any more


class Ending(IntEnum):
    """Why a connection ended; kept in the table until the slot's next life, and counted."""

    NONE = 0
    FINISHED = 1  # the client closed its sending side between messages
    BAD_TYPE = 2  # refused: the first byte of a message is no type that clients may send
    TRUNCATED = 3  # refused: the end of the stream came within a message
    RESET = 4  # the connection broke
    SLOW = 5  # dropped: its reports did not fit into its out buffer any more
    LOST = 6  # dropped: a send failed


class DecodeCounter(IntEnum):
    """Index in `Connections.decode_counters`. Written by the decoder, read by anyone."""

    COMMANDS = 0
    RECEIVES = 1  # system calls
    BYTES = 2
    OPENED = 3
    HELD = 4  # times that whole messages were left in a buffer
    OVERDUE = 5  # ended, and cut off because their client did not take its reports in time
    CLOSED = 8  # CLOSED + `Ending`: connections closed, by reason


class OwnCounter(IntEnum):
    """Index in `Connections.own_counters`. Written by the matcher, read by anyone."""

    REPORTS = 0  # put into out buffers
    SENDS = 1  # system calls
    BYTES = 2
    BLOCKED = 3  # times that a socket took no more
    DISCARDED_BYTES = 4  # reports of dropped and reset connections


COUNTERS = 16


class Setting(IntEnum):
    """Index in `Connections.settings`."""

    CAPACITY = 0  # slots, a power of two; logins differ by it
    IN_EPOLL = 1
    OUT_EPOLL = 2
    IN_BUFFERS = 3  # addresses; slot s has IN_BYTES at IN_BUFFERS + s * IN_BYTES
    OUT_BUFFERS = 4
    OUT_BYTES = 5  # of each out buffer, a multiple of REPORT_BYTES
    IN_EVENTS = 6  # address of EVENTS_MAX epoll events, the decoder's
    OUT_EVENTS = 7  # the matcher's
    TIMESPEC = 8  # address of 16 bytes, the decoder's
    EVENT = 9  # address of one epoll event, control's
    GENERATION = 10  # of the first logins
    CONNECTIONS = 11  # slots in use at the most


class Connections(NamedTuple):
    settings: np.ndarray  # i64[12], by `Setting`, constant
    control: np.ndarray  # u64[capacity * 8]
    intake: np.ndarray  # u64[capacity * 8]
    endings: np.ndarray  # u64[capacity * 8]
    outs: np.ndarray  # u64[capacity * 8]
    progress: np.ndarray  # u64[capacity * 8]
    cells: np.ndarray  # u64[64]
    ready: np.ndarray  # set, decoder's: may have something to read or to decode
    hung: np.ndarray  # set, decoder's: the client's end of stream is behind what can be read
    ended: np.ndarray  # set, decoder's: phase ENDED or later
    waiting: np.ndarray  # set, matcher's: reports wait in the out buffer
    blocked: np.ndarray  # set, matcher's: the socket took no more; an event will tell
    leaving: np.ndarray  # set, matcher's: ended, not yet drained
    decode_counters: np.ndarray  # u64[16], by `DecodeCounter`
    own_counters: np.ndarray  # u64[16], by `OwnCounter`
    scratch: np.ndarray  # u8: events and timespec
    in_buffers: np.ndarray  # u8
    out_buffers: np.ndarray  # u8


def allocate(
    count: int = CONNECTIONS_MAX,
    out_bytes: int = OUT_BYTES_DEFAULT,
    last_login: int = 0,
    last_time_ns: int = 0,
) -> Connections:
    """An empty table with its two epolls, until `free`.

    Args:
        count: connections at the same time. The capacity is the next power of two.
        out_bytes: reports that may wait for one client, rounded down to whole reports.
        last_login: the largest login in the log so far.
        last_time_ns: time of the last command in the log; stamps never go back behind it.
    Raises:
        BadInput: a value is out of its range, or the log's logins are used up.
    """
    if not 1 <= count <= CONNECTIONS_LIMIT:
        raise BadInput(f"connections {count}: expected 1 to {CONNECTIONS_LIMIT}")
    capacity = 1 << (count - 1).bit_length()
    if out_bytes < 4 * REPORT_BYTES:
        raise BadInput(f"out_bytes {out_bytes}: expected {4 * REPORT_BYTES} or more")
    generation = last_login // capacity + 1
    if generation * capacity > LOGIN_MAX:
        raise BadInput(f"login {last_login}: this log has no logins left: start a new one")
    out_bytes -= out_bytes % REPORT_BYTES
    scratch = sparse(SCRATCH_BYTES, np.uint8)
    # The last message of a buffer is read as if it were whole, even a cancel.
    in_buffers = sparse(capacity * IN_BYTES + COMMAND_BYTES, np.uint8)
    out_buffers = sparse(capacity * out_bytes, np.uint8)
    in_epoll, out_epoll = open_epolls()

    settings = np.zeros(len(Setting), np.int64)
    settings[Setting.CAPACITY], settings[Setting.CONNECTIONS] = capacity, count
    settings[Setting.IN_EPOLL], settings[Setting.OUT_EPOLL] = in_epoll, out_epoll
    settings[Setting.IN_BUFFERS] = address_of(in_buffers)
    settings[Setting.OUT_BUFFERS] = address_of(out_buffers)
    settings[Setting.OUT_BYTES] = out_bytes
    settings[Setting.IN_EVENTS] = address_of(scratch)
    settings[Setting.OUT_EVENTS] = address_of(scratch) + EVENTS_MAX * EVENT_BYTES_MAX
    settings[Setting.TIMESPEC] = address_of(scratch) + 2 * EVENTS_MAX * EVENT_BYTES_MAX
    settings[Setting.EVENT] = settings[Setting.TIMESPEC] + 128
    settings[Setting.GENERATION] = generation

    def lines() -> np.ndarray:
        return sparse(capacity * LINE_WORDS, np.uint64)

    cells = sparse(CELL_WORDS, np.uint64)
    cells[int(LAST_TIME_NS)] = last_time_ns
    return Connections(
        settings=settings,
        control=lines(),
        intake=lines(),
        endings=lines(),
        outs=lines(),
        progress=lines(),
        cells=cells,
        ready=bitset.allocate(capacity),
        hung=bitset.allocate(capacity),
        ended=bitset.allocate(capacity),
        waiting=bitset.allocate(capacity),
        blocked=bitset.allocate(capacity),
        leaving=bitset.allocate(capacity),
        decode_counters=sparse(COUNTERS, np.uint64),
        own_counters=sparse(COUNTERS, np.uint64),
        scratch=scratch,
        in_buffers=in_buffers,
        out_buffers=out_buffers,
    )


@kernel
def slot_of(connections, login):
    """The slot that a login has, or had."""
    return login & U(connections.settings[Setting.CAPACITY] - 1)


def open_epolls() -> tuple[int, int]:
    """The decoder's epoll and the matcher's, which is registered with it under login 0."""
    with select.epoll() as inner, select.epoll() as outer:
        in_epoll, out_epoll = os.dup(inner.fileno()), os.dup(outer.fileno())
    event = bytearray(EPOLL_EVENT_BYTES)
    event[:4] = (select.EPOLLIN | select.EPOLLET).to_bytes(4, sys.byteorder)
    library = ctypes.CDLL(None, use_errno=True)
    if library.epoll_ctl(in_epoll, EPOLL_CTL_ADD, out_epoll, bytes(event)) != 0:
        raise OSError(ctypes.get_errno(), "epoll_ctl")
    return in_epoll, out_epoll


def free(connections: Connections) -> None:
    """Close the two epolls. No kernel may run on the table any more."""
    os.close(int(connections.settings[Setting.IN_EPOLL]))
    os.close(int(connections.settings[Setting.OUT_EPOLL]))
