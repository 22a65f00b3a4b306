"""The table of order entry connections: what three threads know of each TCP client, and who may write what.

A connection has a *slot* for as long as it lives and a *login* for ever: u32, `generation * capacity + slot`, so
the slot is `login & (capacity - 1)`. 0 is none. Logins are not reused within a log: recovery passes the largest
it has read, and every login given out is larger.

Three owners; each writes its own cells only, all on cache lines of their own. What another one reads is
stored last, with a release, and holds a login, so that a slot's former life is never mistaken for this one:

    owner     array      cells of a slot (8 words)                              read by
    control   control    OPENED login (release), descriptor, account            decoder, matcher
    decoder   intake     buffer, position in the client's stream, `Phase`       -
              endings    ENDED login (release), position, how and where         matcher
                         CLOSED login (release)                                 control
    matcher   outs       out buffer, `Fate`                                     -
              progress   BACKLOG (release), DROPPED and DRAINED login (release) decoder

A slot's life:

    1  control  finds OPENED == CLOSED, stores descriptor and account, then OPENED = login, and only then registers the
                descriptor with both epolls. It never touches the descriptor again.
    2  decoder  gets the first event of `login`, reads OPENED, takes the connection over. Its commands carry the login,
                by which the matcher takes it over at the first of them.
    3  decoder  meets the end of input (or a bad message): stores how, and the ring position after the last command,
                then ENDED = login, then raises the count of endings. From here it discards what the client sends.
    4  matcher  sees the count, and once it is past that position sends what waits, a last reject if there is one to make,
                shuts the sending side, and stores DRAINED = login. It never touches the descriptor again.
    5  decoder  sees DRAINED and the client's own end, or its time is up: closes the descriptor, stores CLOSED = login.

A client that must go (reports it did not read, a failed send) is dropped by the matcher: it stores why, then DROPPED =
login, and shuts both directions, which wakes the decoder; 3 to 5 follow. What a client sent before it went away
without reading its reports is still executed; of one that was too slow nothing more is. Nobody waits for anybody.

Both epolls are edge triggered and their events carry the login: an event for a slot's former life is told apart.
The matcher's epoll (`OUT_EPOLL`: a socket can be written again) is itself in the decoder's, so that a thread which
does both blocks in one place; a matcher on its own may poll `OUT_EPOLL` where it parks.

Memory is bounded: capacity * (64 KiB + out_bytes), by default 256 * (64 KiB + 1 MiB) = 272 MiB of address
space, of which only touched pages are real. A buffer that runs empty starts again at its first byte, so a connection whose
client keeps up uses a few pages. The lowest free slot is taken first.
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
from matchbox.libc import EPOLL_EVENT_BYTES
from matchbox.memory import address_of, huge, sparse
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

# intake; DESCRIPTOR as in control. Bytes [START, END) of the slot's buffer are received and not yet decoded, the first
# of them is byte TAKEN of what the client has sent. STAMP: login, account in the high half. DEADLINE: steady ns.
LOGIN, STAMP, START, END, TAKEN, PHASE, DEADLINE = U(0), U(2), U(3), U(4), U(5), U(6), U(7)

# endings
ENDED, POSITION, REASON, TYPE, OFFSET, CLOSED = U(0), U(1), U(2), U(3), U(4), U(5)

# outs; LOGIN and DESCRIPTOR as in intake. FILL bytes from READ on wait to be sent; WRITE is where the next report goes.
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
    HELD = 2  # whole messages wait in the buffer, for room in the ring or for the client to read its reports
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
    in_buffers = sparse(capacity * IN_BYTES + COMMAND_BYTES, np.uint8)  # a cancel is read as if whole
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

    cells = huge(CELL_WORDS, np.uint64)
    cells[int(LAST_TIME_NS)] = last_time_ns
    return Connections(
        settings,
        *(lines() for _ in range(5)),
        cells,
        *(bitset.allocate(capacity) for _ in range(6)),
        *(huge(COUNTERS, np.uint64) for _ in range(2)),
        scratch,
        in_buffers,
        out_buffers,
    )


def open_epolls() -> tuple[int, int]:
    """The decoder's epoll and the matcher's, the second one registered with the first (data 0: no login)."""
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


class Status(NamedTuple):
    """One row of the table, as control may see it at any time."""

    slot: int
    login: int
    account: int
    descriptor: int  # -1 once closed
    backlog: int  # bytes of reports waiting in the out buffer
    ending: Ending  # NONE while it lives


def statuses(connections: Connections) -> list[Status]:
    """Every slot that was ever used, with its newest connection."""
    rows = []
    for slot in np.flatnonzero(connections.control[int(OPENED) :: LINE_WORDS]):
        control, endings, progress = (
            array[slot * LINE_WORDS : (slot + 1) * LINE_WORDS]
            for array in (connections.control, connections.endings, connections.progress)
        )
        login = int(control[int(OPENED)])
        ended = int(endings[int(ENDED)]) == login
        closed = int(endings[int(CLOSED)]) == login
        rows.append(
            Status(
                int(slot),
                login,
                int(control[int(ACCOUNT)]),
                -1 if closed else int(control[int(DESCRIPTOR)]),
                int(progress[int(BACKLOG)]),
                Ending(int(endings[int(REASON)])) if ended else Ending.NONE,
            )
        )
    return rows


def open_descriptors(connections: Connections) -> list[int]:
    """Descriptors that the data plane still holds."""
    return [status.descriptor for status in statuses(connections) if status.descriptor >= 0]


def counters(connections: Connections) -> dict[str, int]:
    """Name to value; readable while the data plane runs."""
    decode, own = connections.decode_counters, connections.own_counters
    values = {c.name.lower(): int(decode[c]) for c in DecodeCounter if c != DecodeCounter.CLOSED}
    values |= {f"closed_{e.name.lower()}": int(decode[DecodeCounter.CLOSED + e]) for e in Ending if e}
    return values | {f"own_{c.name.lower()}": int(own[c]) for c in OwnCounter}
