"""Order entry over TCP: bytes of many clients become records in the ring. Kernels, on the decoder's thread.

    one message = the first 40 bytes of a COMMAND; a cancel only its first 16. No framing, no login.

`decode_step` asks which sockets have something (epoll, edge triggered), reads each of them once, and turns whole
messages into slots. A message cut by a read stays in the connection's buffer until the rest has come. Whole messages
that find no room, in the ring or in the out buffer of a client that does not read its reports, stay as well
(`Phase.HELD`) and their socket is not read: TCP then tells the client to wait.

Room for reports: a connection may have as many commands on the way as half its out buffer has room for reports
(everything in the ring is counted as if it were its own). The other half is for the further reports of those
commands and for executions of its resting orders.

A message whose first byte is no client's type, and the end of the stream within a message, end the connection:
all before it is executed and reported, the last report is a reject with report_sequence 0, reason BAD_TYPE or
TRUNCATED, contra = the type byte and quantity = where in the client's stream the message began. What the client
goes on sending is discarded, so that the reject is not lost to a reset of the connection.

Stamps: the login and account on every record, on an enter also in the command, and the wall clock, read once for
all messages that are decoded together; it never goes back behind the last stamp.
"""

import select

import numpy as np

from matchbox.atomics import (
    U,
    load_acquire,
    load_u8,
    load_u32,
    load_u64,
    store_release,
    copy_bytes,
)
from matchbox.bitset import add, beyond, contains, empty, following, remove
from matchbox.connections import (
    ACCOUNT,
    BACKLOG,
    CAUSE,
    CLOSED,
    DEADLINE,
    DESCRIPTOR,
    DRAINED,
    DROPPED,
    END,
    ENDED,
    ENDINGS,
    EVENTS_MAX,
    IN_BYTES,
    LAST_TIME_NS,
    LINE_SHIFT,
    LOGIN,
    OFFSET,
    OPENED,
    PHASE,
    POSITION,
    REASON,
    STALLED,
    STAMP,
    START,
    TAKEN,
    TURN,
    TYPE,
    Connections,
    DecodeCounter,
    Ending,
    Phase,
    Setting,
)
from matchbox.constants import CommandType
from matchbox.jit import kernel
from matchbox.libc import (
    CLOCK_MONOTONIC,
    CLOCK_REALTIME,
    EAGAIN,
    EINTR,
    EPOLL_DATA_OFFSET,
    EPOLL_EVENT_BYTES,
    MSG_DONTWAIT,
    clock_ns,
    close,
    epoll_wait,
    errno,
    recv,
    shutdown,
)
from matchbox.ring import CONSUMER, PRODUCER_GATE, PRODUCER_NEXT, claim, count_of, mask_of, publish
from matchbox.schema import CANCEL_BYTES, COMMAND_BYTES, REPORT_BYTES

__all__ = ["Connections", "decode_step"]

ACCEPTED_TYPES = U(
    sum(
        1 << code
        for code in (
            CommandType.ENTER,
            CommandType.CANCEL,
            CommandType.REDUCE,
            CommandType.REPLACE,
            CommandType.DEFINE,
            CommandType.STATE,
        )
    )
)
LOW = U(0xFFFFFFFF)
HIGH_SHIFT = U(32)
ENTER, CANCEL = U(CommandType.ENTER), U(CommandType.CANCEL)

STEP_COMMANDS = U(512)
"""A step goes on to no further connection once it has decoded this many: the matcher waits for it."""

PUBLISH_COMMANDS = U(64)
"""Within a long read the matcher is given work this often."""

HANG_UP = U(select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR)
SHUT_BOTH = 2
STALLED_MS = 1
"""Longest wait for sockets while something waits that no socket event would announce."""

LINGER_NS = 2_000_000_000
"""How long a client that was shut out may keep its own side open."""
DRAIN_NS = 30_000_000_000
"""How long the reports of an ended connection may wait for its client to read them."""

# Outcomes of `decode`.
MORE, HOLD, BAD = U(0), U(1), U(2)


@kernel
def slot_of(connections, login):
    return login & U(connections.settings[Setting.CAPACITY] - 1)


@kernel
def take_over(connections, slot, login):
    """Make the connection that control has put into `slot` the decoder's. False if `login` is of the past."""
    control, intake = connections.control, connections.intake
    at = slot << LINE_SHIFT
    if load_acquire(control, at + OPENED) != login:
        return False
    intake[at + LOGIN] = login
    intake[at + DESCRIPTOR] = control[at + DESCRIPTOR]
    intake[at + STAMP] = login | (control[at + ACCOUNT] << HIGH_SHIFT)
    intake[at + START] = U(0)
    intake[at + END] = U(0)
    intake[at + TAKEN] = U(0)
    intake[at + PHASE] = U(Phase.OPEN)
    connections.decode_counters[DecodeCounter.OPENED] += U(1)
    return True


@kernel
def stamp_ns(connections):
    cells = connections.cells
    now = U(clock_ns(CLOCK_REALTIME, connections.settings[Setting.TIMESPEC]))
    cells[LAST_TIME_NS] = max(cells[LAST_TIME_NS], now)
    return cells[LAST_TIME_NS]


@kernel
def report_room(connections, ring, at):
    """How many commands this connection may add to those on the way."""
    half = U(connections.settings[Setting.OUT_BYTES] >> 1)
    cursors = ring.cursors
    # The gate first: reports of what was released by then are in the backlog read after it.
    in_flight = (cursors[PRODUCER_NEXT] - cursors[PRODUCER_GATE]) * U(REPORT_BYTES)
    backlog = load_acquire(connections.progress, at + BACKLOG)
    if in_flight + backlog >= half >> U(1):
        cursors[PRODUCER_GATE] = load_acquire(cursors, CONSUMER)
        in_flight = (cursors[PRODUCER_NEXT] - cursors[PRODUCER_GATE]) * U(REPORT_BYTES)
        backlog = load_acquire(connections.progress, at + BACKLOG)
    used = in_flight + backlog
    return (half - used) // U(REPORT_BYTES) if used < half else U(0)


@kernel
def decode(connections, ring, slot):
    """Move whole messages from a connection's buffer into the ring. Returns how many, and why it stopped."""
    intake, at = connections.intake, slot << LINE_SHIFT
    buffer = connections.settings[Setting.IN_BUFFERS] + np.int64(slot) * IN_BYTES
    start, end = buffer + np.int64(intake[at + START]), buffer + np.int64(intake[at + END])
    next, free = claim(ring, count_of(ring))
    free = min(free, report_room(connections, ring, at))
    if free == U(0):
        return U(0), HOLD
    stamp, time = intake[at + STAMP], stamp_ns(connections)
    login_high = stamp << HIGH_SHIFT
    slots, mask = ring.slots, mask_of(ring)
    place, count, outcome = start, U(0), MORE
    while place < end:
        if count == free:
            outcome = HOLD
            break
        word = load_u64(place)
        type = word & U(0xFF)
        if type > U(63) or (ACCEPTED_TYPES >> type) & U(1) == U(0):
            outcome = BAD
            break
        # No branch on the type: in a mixed stream it would be mispredicted every other time.
        size = np.int64(CANCEL_BYTES if type == CANCEL else COMMAND_BYTES)
        if end - place < size:
            break
        whole = U(type == CANCEL) - U(1)  # all ones, or zero
        unless_enter = U(type == ENTER) - U(1)
        to = ((next + count) & mask) << U(3)
        slots[to] = stamp
        slots[to + U(1)] = U(0)
        slots[to + U(2)] = time
        slots[to + U(3)] = word
        slots[to + U(4)] = load_u64(place + 8)
        slots[to + U(5)] = load_u64(place + 16) & whole
        slots[to + U(6)] = load_u64(place + 24) & whole
        last = load_u64(place + 32) & whole
        slots[to + U(7)] = (last & (LOW | unless_enter)) | (login_high & ~unless_enter)
        place += size
        count += U(1)
        if count & (PUBLISH_COMMANDS - U(1)) == U(0):
            publish(ring, next + count)
    publish(ring, next + count)
    intake[at + TAKEN] += U(place - start)
    if outcome == HOLD:
        intake[at + START] = U(place - buffer)
    else:
        copy_bytes(buffer, place, end - place)
        intake[at + START] = U(0)
        intake[at + END] = U(end - place)
    connections.decode_counters[DecodeCounter.COMMANDS] += count
    return count, outcome


@kernel
def cause_of_drop(connections, at):
    """Why the matcher has dropped this connection; Ending.NONE if it has not."""
    dropped = load_acquire(connections.progress, at + DROPPED) == connections.intake[at + LOGIN]
    return connections.progress[at + CAUSE] if dropped else U(Ending.NONE)


@kernel
def end_input(connections, ring, slot, reason):
    """Tell the matcher that no command of this connection follows, and why."""
    # Where a send has failed, what recv says afterwards is only its consequence.
    cause = cause_of_drop(connections, slot << LINE_SHIFT)
    if cause != U(Ending.NONE):
        reason = cause
    intake, endings, at = connections.intake, connections.endings, slot << LINE_SHIFT
    settings, cells = connections.settings, connections.cells
    buffer = settings[Setting.IN_BUFFERS] + np.int64(slot) * IN_BYTES
    endings[at + POSITION] = ring.cursors[PRODUCER_NEXT]
    endings[at + REASON] = reason
    endings[at + TYPE] = load_u8(buffer + np.int64(intake[at + START]))
    endings[at + OFFSET] = intake[at + TAKEN]
    store_release(endings, at + ENDED, intake[at + LOGIN])
    store_release(cells, ENDINGS, cells[ENDINGS] + U(1))
    intake[at + PHASE] = U(Phase.ENDED)
    now = clock_ns(CLOCK_MONOTONIC, settings[Setting.TIMESPEC])
    intake[at + DEADLINE] = U(now + DRAIN_NS)
    add(connections.ended, slot)


@kernel
def receive(connections, slot):
    """Read once into the free end of the buffer. Returns what recv does, and the bytes asked for."""
    intake, at = connections.intake, slot << LINE_SHIFT
    end = np.int64(intake[at + END])
    wanted = IN_BYTES - end
    place = connections.settings[Setting.IN_BUFFERS] + np.int64(slot) * IN_BYTES + end
    size = recv(np.int32(intake[at + DESCRIPTOR]), place, wanted, MSG_DONTWAIT)
    connections.decode_counters[DecodeCounter.RECEIVES] += U(1)
    if size > 0:
        connections.decode_counters[DecodeCounter.BYTES] += U(size)
    return size, wanted


@kernel
def discard(connections, slot):
    """Read what an ended connection still sends, to forget it."""
    at = slot << LINE_SHIFT
    connections.intake[at + END] = U(0)
    size, _ = receive(connections, slot)
    why = errno() if size < 0 else U(0)
    if size > 0 or why == U(EINTR):
        return
    remove(connections.ready, slot)
    if why != U(EAGAIN):
        connections.intake[at + PHASE] = U(Phase.SILENT)


@kernel
def serve(connections, ring, slot):
    """Decode what is held, else read once and decode. Returns commands made, plus one if the input ended."""
    intake, at = connections.intake, slot << LINE_SHIFT
    ready = connections.ready
    phase = intake[at + PHASE]
    if phase != U(Phase.OPEN) and phase != U(Phase.HELD):
        if phase == U(Phase.ENDED) or phase == U(Phase.LINGERING):
            discard(connections, slot)
        else:
            remove(ready, slot)
        return U(0)
    if cause_of_drop(connections, at) == U(Ending.SLOW):
        end_input(connections, ring, slot, U(Ending.SLOW))
        return U(1)
    drained_socket = False
    if phase == U(Phase.OPEN):
        size, wanted = receive(connections, slot)
        if size < 0:
            why = errno()
            if why == U(EAGAIN):
                remove(ready, slot)
            elif why != U(EINTR):
                end_input(connections, ring, slot, U(Ending.RESET))
                return U(1)
            return U(0)
        if size == 0:
            whole = intake[at + END] == U(0)
            reason = U(Ending.FINISHED) if whole else U(Ending.TRUNCATED)
            end_input(connections, ring, slot, reason)
            return U(1)
        intake[at + END] += U(size)
        # A short read took all there was; what comes later makes a new event, but for an end already announced.
        drained_socket = size < wanted and not contains(connections.hung, slot)
    count, outcome = decode(connections, ring, slot)
    if outcome == BAD:
        end_input(connections, ring, slot, U(Ending.BAD_TYPE))
        return count + U(1)
    if outcome == HOLD:
        if phase == U(Phase.OPEN):
            connections.decode_counters[DecodeCounter.HELD] += U(1)
        intake[at + PHASE] = U(Phase.HELD)
    else:
        intake[at + PHASE] = U(Phase.OPEN)
        if drained_socket:
            remove(ready, slot)
    return count


@kernel
def serve_from(connections, ring, slot, last, work):
    """Serve ready connections from `slot` to before `last` until the step's budget is used. Returns the work."""
    while work < STEP_COMMANDS:
        slot = following(connections.ready, slot)
        if slot >= last:
            break
        work += serve(connections, ring, slot)
        slot += U(1)
        connections.cells[TURN] = slot
    return work


@kernel
def finish_ended(connections):
    """Close what both sides are done with, or whose time is up. Returns how many."""
    intake, ended = connections.intake, connections.ended
    closed = U(0)
    slot = following(ended, U(0))
    if slot == beyond(ended):
        return closed
    now = U(clock_ns(CLOCK_MONOTONIC, connections.settings[Setting.TIMESPEC]))
    while slot != beyond(ended):
        at = slot << LINE_SHIFT
        drained = load_acquire(connections.progress, at + DRAINED) == intake[at + LOGIN]
        phase = intake[at + PHASE]
        overdue = now > intake[at + DEADLINE]
        if drained and (phase == U(Phase.SILENT) or overdue):
            finish(connections, slot)
            closed += U(1)
        elif drained and phase == U(Phase.ENDED):
            intake[at + PHASE] = U(Phase.LINGERING)
            intake[at + DEADLINE] = now + U(LINGER_NS)
        elif overdue:
            # The matcher's next send fails, and then it is drained.
            shutdown(np.int32(intake[at + DESCRIPTOR]), SHUT_BOTH)
            connections.decode_counters[DecodeCounter.OVERDUE] += U(1)
            intake[at + DEADLINE] = now + U(DRAIN_NS)
        slot = following(ended, slot + U(1))
    return closed


@kernel
def finish(connections, slot):
    """Close the descriptor and give the slot back."""
    intake, endings, at = connections.intake, connections.endings, slot << LINE_SHIFT
    close(np.int32(intake[at + DESCRIPTOR]))
    intake[at + PHASE] = U(Phase.CLOSED)
    remove(connections.ended, slot)
    remove(connections.ready, slot)
    remove(connections.hung, slot)
    connections.decode_counters[U(DecodeCounter.CLOSED) + endings[at + REASON]] += U(1)
    store_release(endings, at + CLOSED, intake[at + LOGIN])


@kernel
def gather(connections, timeout_ms):
    """Learn from epoll which connections have something, waiting for at most `timeout_ms`."""
    settings, intake = connections.settings, connections.intake
    events = settings[Setting.IN_EVENTS]
    count = epoll_wait(np.int32(settings[Setting.IN_EPOLL]), events, EVENTS_MAX, np.int32(timeout_ms))
    for index in range(count):
        event = events + index * EPOLL_EVENT_BYTES
        login = load_u64(event + EPOLL_DATA_OFFSET)
        slot = slot_of(connections, login)
        at = slot << LINE_SHIFT
        # Login 0 is the matcher's epoll: it only had to wake this thread.
        if login != U(0) and (intake[at + LOGIN] == login or take_over(connections, slot, login)):
            if intake[at + PHASE] != U(Phase.CLOSED):
                add(connections.ready, slot)
                if load_u32(event) & HANG_UP != U(0):
                    add(connections.hung, slot)


@kernel
def decode_step(connections, ring, timeout_ms):
    """Read what has come from clients into the ring.

    Args:
        timeout_ms: how long to wait for clients if nothing is pending; 0 to not wait.
    Returns:
        commands made plus connections ended, u64: 0 if there is nothing new for the matcher.
    """
    cells = connections.cells
    timeout_ms = np.int64(timeout_ms)
    if not empty(connections.ready) and cells[STALLED] == U(0):
        timeout_ms = np.int64(0)
    elif not empty(connections.ready) or not empty(connections.ended):
        timeout_ms = min(timeout_ms, np.int64(STALLED_MS))
    gather(connections, timeout_ms)
    turn = cells[TURN]
    work = serve_from(connections, ring, turn, beyond(connections.ready), U(0))
    work = serve_from(connections, ring, U(0), turn, work)
    finish_ended(connections)
    cells[STALLED] = U(work == U(0) and not empty(connections.ready))
    return work
