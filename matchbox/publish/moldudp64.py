"""Reports as MoldUDP64 1.0 datagrams, from the outbox to the wire. Kernels.

    datagram = header | message ... message
    offset  size  field
         0    10  stream                    (MoldUDP64: session)
        10     8  sequence, big-endian      of the first message; heartbeat and end: of the next one
        18     2  count, big-endian         messages; 0: heartbeat; 0xFFFF: end of session
        20    50  each message: u16 big-endian length 48, then the public report

Natural batching: `publish` sends what there is at once, whether one report or thousands, and never waits for
more. A burst is framed as datagrams that lie end to end in the send buffer, every one full but the last, and
leaves in one of three ways (`Mode`): as one segmented send (UDP_SEGMENT), one sendmmsg, or a send each. What is
on the wire is the same. `sender.py` lays streams and message lengths into the buffer once, at the offsets that
this layout fixes; framing writes only what changes.

Nothing here blocks or reads a clock. A datagram that the kernel does not take after `RETRIES` is counted as
dropped: subscribers see a gap and can have it repaired. The heartbeat tells them of a loss at the very end.

Invariant: report sequences are dense. `publish` refuses entries that do not carry on from the last one.
"""

import errno as codes
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from matchbox.atomics import U, pause, store_u16_big, store_u64, store_u64_big
from matchbox.constants import Kind
from matchbox.jit import kernel
from matchbox.libc import (
    EAGAIN,
    ECONNREFUSED,
    EINTR,
    EIO,
    EMSGSIZE,
    ENOBUFS,
    MSG_DONTWAIT,
    MSG_NOSIGNAL,
    errno,
    send,
    sendmmsg,
    setsockopt,
)
from matchbox.schema import MOLD_LAYOUT, REPORT_BYTES, REPORT_LAYOUT

HEADER_BYTES = MOLD_LAYOUT.size
SEQUENCE_OFFSET = MOLD_LAYOUT.offsets()["sequence"]
COUNT_OFFSET = MOLD_LAYOUT.offsets()["count"]
LENGTH_BYTES = 2
MESSAGE_BYTES = LENGTH_BYTES + REPORT_BYTES

HEARTBEAT = U(0)
END_OF_SESSION = U(0xFFFF)
MESSAGES_MAX = 0xFFFE
"""Most messages a count can tell from the end of session."""

END_REPEATS = 3
RETRIES = U(32)
"""Further tries for a full send buffer: some 20 us, so that the engine does not wait for a network."""

MESSAGE_HEADER_BYTES = 64  # struct mmsghdr
VECTOR_WORDS = U(2)  # struct iovec: address, length
SEND_FLAGS = MSG_DONTWAIT | MSG_NOSIGNAL
SOL_UDP, UDP_SEGMENT = 17, 103
EINVAL = codes.EINVAL


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


# A report's words 1 to 4 are private on a reject; of word 5 (instrument, kind, side, reason, flags) kind and
# flags stay.
KIND_SHIFT = U(8 * (REPORT_LAYOUT.offsets()["kind"] - 40))
FLAGS_SHIFT = U(8 * (REPORT_LAYOUT.offsets()["flags"] - 40))
BYTE = U(0xFF)
REJECT_SHOWS = (BYTE << KIND_SHIFT) | (BYTE << FLAGS_SHIFT)


@kernel
def public_masks(word5):
    """What everybody may see of a report: masks for reference, price and quantity; contra; word 5.

    - accepted: contra, the client's order_id, is zero.
    - rejected: it tells that a sequence was used and whether the command ends there. `report_sequence`, `kind`
      and `flags` stay; reference, contra, price, quantity, instrument, side and reason are zero.
    - all others are shown whole.
    """
    kind = (word5 >> KIND_SHIFT) & BYTE
    unless_rejected = U(kind == U(Kind.REJECTED)) - U(1)  # all ones, or zero
    unless_accepted = U(kind == U(Kind.ACCEPTED)) - U(1)
    return unless_rejected, unless_rejected & unless_accepted, unless_rejected | REJECT_SHOWS


@kernel
def put_header(place, sequence, count):
    store_u64_big(place + SEQUENCE_OFFSET, sequence)
    store_u16_big(place + COUNT_OFFSET, count)


@kernel
def frame(publisher, outbox, first, last):
    """Lay outbox entries [first, last), at most a burst, into the buffer.

    Returns the number of datagrams, their bytes in all, and nonzero if a sequence was not the next one.
    """
    sequence = publisher.cells[Cell.NEXT]
    full = U(publisher.settings[Setting.DATAGRAM_REPORTS])
    start = publisher.settings[Setting.BUFFER]
    place = start
    datagrams, broken = U(0), U(0)
    while first < last:
        count = min(full, last - first)
        put_header(place, sequence, count)
        place += HEADER_BYTES
        end = first + count
        while first < end:
            at = first << U(3)
            word5 = outbox[at + U(5)]
            shown, contra_shown, word5_shown = public_masks(word5)
            broken |= outbox[at] ^ sequence
            store_u64(place + 2, sequence)
            store_u64(place + 10, outbox[at + U(1)] & shown)
            store_u64(place + 18, outbox[at + U(2)] & contra_shown)
            store_u64(place + 26, outbox[at + U(3)] & shown)
            store_u64(place + 34, outbox[at + U(4)] & shown)
            store_u64(place + 42, word5 & word5_shown)
            place += MESSAGE_BYTES
            sequence += U(1)
            first += U(1)
        datagrams += U(1)
    return datagrams, place - start, broken


@kernel
def may_pass(publisher, code):
    """Whether a send that failed with this errno is worth another try.

    A full send buffer empties. A refusal is about an earlier datagram: this one was not tried at all.
    """
    if code == U(ECONNREFUSED):
        publisher.counters[Counter.REFUSED] += U(1)
        return True
    return code == U(EAGAIN) or code == U(ENOBUFS) or code == U(EINTR)


@kernel
def drop(publisher, count, code):
    publisher.counters[Counter.DROPPED] += count
    publisher.counters[Counter.LAST_ERRNO] = code


@kernel
def send_one(publisher, place, size):
    """Send bytes as one datagram, or as many under segmentation. Returns 0 or the errno that ended it."""
    descriptor = np.int32(publisher.settings[Setting.DESCRIPTOR])
    tries = U(0)
    while True:
        publisher.counters[Counter.SENDS] += U(1)
        if send(descriptor, place, size, SEND_FLAGS) >= 0:
            return U(0)
        code = errno()
        if not may_pass(publisher, code) or tries == RETRIES:
            return code
        tries += U(1)
        pause()


@kernel
def send_each(publisher, count, size, stride):
    """Send the buffer's datagrams, `stride` bytes each but for the last, one by one."""
    place = publisher.settings[Setting.BUFFER]
    for _ in range(count):
        code = send_one(publisher, place, min(stride, size))
        if code == U(0):
            publisher.counters[Counter.DATAGRAMS] += U(1)
        else:
            drop(publisher, U(1), code)
        place += stride
        size -= stride


@kernel
def send_many(publisher, count, size, stride):
    """Send the buffer's datagrams with as few sendmmsg calls as the kernel needs."""
    descriptor = np.int32(publisher.settings[Setting.DESCRIPTOR])
    last_length = (count - U(1)) * VECTOR_WORDS + U(1)
    publisher.vectors[last_length] = U(size) - (count - U(1)) * U(stride)
    done, tries = U(0), U(0)
    while done < count:
        place = publisher.settings[Setting.MESSAGES] + np.int64(done) * MESSAGE_HEADER_BYTES
        publisher.counters[Counter.SENDS] += U(1)
        sent = sendmmsg(descriptor, place, np.uint32(count - done), SEND_FLAGS)
        if sent > 0:  # when fewer than asked, the next call meets the obstacle and names it
            publisher.counters[Counter.DATAGRAMS] += U(sent)
            done += U(sent)
            tries = U(0)
            continue
        code = errno()
        if not may_pass(publisher, code):
            drop(publisher, U(1), code)
            done += U(1)
        elif tries == RETRIES:
            drop(publisher, count - done, code)
            done = count
        tries += U(1)
        pause()
    publisher.vectors[last_length] = U(stride)


@kernel
def give_up_segmentation(publisher, code):
    """From here on the kernel is given datagrams. The option goes too: it fails small sends as well."""
    descriptor = np.int32(publisher.settings[Setting.DESCRIPTOR])
    setsockopt(descriptor, SOL_UDP, UDP_SEGMENT, publisher.settings[Setting.ZERO], 4)
    publisher.cells[Cell.MODE] = U(Mode.MMSG)
    publisher.counters[Counter.FALLBACKS] += U(1)
    publisher.counters[Counter.LAST_ERRNO] = code


@kernel
def transmit(publisher, count, size):
    """Send the first `count` datagrams in the buffer, `size` bytes in all."""
    if publisher.cells[Cell.MODE] == U(Mode.GSO):
        code = send_one(publisher, publisher.settings[Setting.BUFFER], size)
        if code == U(0):
            publisher.counters[Counter.DATAGRAMS] += count
            return
        # A segment larger than the route's MTU (EINVAL in older kernels); a device without checksums.
        if code != U(EMSGSIZE) and code != U(EINVAL) and code != U(EIO):
            drop(publisher, count, code)
            return
        give_up_segmentation(publisher, code)
    stride = HEADER_BYTES + publisher.settings[Setting.DATAGRAM_REPORTS] * MESSAGE_BYTES
    if count > U(1) and publisher.cells[Cell.MODE] == U(Mode.MMSG):
        send_many(publisher, count, size, stride)
    else:
        send_each(publisher, count, size, stride)


@kernel
def publish(publisher, outbox, first, last):
    """Send outbox entries [first, last) (u64[entries * 8]) to everybody, now. Returns a `Fault` code, u64."""
    settings = publisher.settings
    burst = U(settings[Setting.DATAGRAM_REPORTS]) * U(settings[Setting.BURST_DATAGRAMS])
    while first < last:
        end = min(last, first + burst)
        datagrams, size, broken = frame(publisher, outbox, first, end)
        if broken != U(0):
            return U(Fault.NOT_DENSE)
        publisher.cells[Cell.NEXT] += end - first
        publisher.counters[Counter.REPORTS] += end - first
        transmit(publisher, datagrams, size)
        first = end
    return U(Fault.NONE)


@kernel
def send_header(publisher, count):
    put_header(publisher.settings[Setting.BUFFER], publisher.cells[Cell.NEXT], count)
    transmit(publisher, U(1), HEADER_BYTES)


@kernel
def heartbeat(publisher, now_ns):
    """Send a heartbeat if nothing was sent for the configured time. Call it often, with a steady clock.

    `publish` reads no clock: quiet time counts from the first call that finds no further report, so a heartbeat
    is late by at most the time between two calls. The first call after opening sends one at once.
    """
    cells, now = publisher.cells, U(now_ns)
    if cells[Cell.QUIET_SEQUENCE] != cells[Cell.NEXT]:
        cells[Cell.QUIET_SEQUENCE] = cells[Cell.NEXT]
        cells[Cell.QUIET_SINCE_NS] = now
    elif now - cells[Cell.QUIET_SINCE_NS] >= U(publisher.settings[Setting.HEARTBEAT_NS]):
        cells[Cell.QUIET_SINCE_NS] = now
        publisher.counters[Counter.HEARTBEATS] += U(1)
        send_header(publisher, HEARTBEAT)


@kernel
def end_of_stream(publisher):
    """Tell subscribers that no report follows: the orderly stop. Said three times, as datagrams get lost."""
    for _ in range(END_REPEATS):
        send_header(publisher, END_OF_SESSION)
