"""Order entry over TCP: bytes of many clients become records in the ring. Kernels.

`decode_step` asks which sockets have something (epoll, edge triggered), reads each of them once and
decodes what came (messages.py). A connection that may have more stays in the set `ready`; one whose
messages find no room is not read (`Phase.HELD`), and TCP tells its client to wait.

A message whose first byte is no client's type, or a stream that ends within a message, ends the
connection (closing.py): all before it is executed and reported, then comes one reject with
report_sequence 0, reason BAD_TYPE or TRUNCATED, contra = that first byte, quantity = where in the
client's stream the message began.

Nothing here blocks but `epoll_wait`, and that only if the caller allows it and nothing is pending.
"""

import select

import numpy as np

from matchbox.atomics import U, load_acquire, load_u32, load_u64
from matchbox.bitset import add, beyond, contains, empty, following, remove
from matchbox.connections import (
    ACCOUNT,
    DESCRIPTOR,
    END,
    EVENTS_MAX,
    IN_BYTES,
    LINE_SHIFT,
    LOGIN,
    OPENED,
    PHASE,
    STALLED,
    STAMP,
    START,
    TAKEN,
    TURN,
    Connections,
    DecodeCounter,
    Ending,
    Phase,
    Setting,
    slot_of,
)
from matchbox.decode.closing import cause_of_drop, end_input, finish_ended
from matchbox.decode.messages import BAD, HIGH_SHIFT, HOLD, decode, in_flight
from matchbox.jit import kernel
from matchbox.libc import (
    EAGAIN,
    EINTR,
    EPOLL_DATA_OFFSET,
    EPOLL_EVENT_BYTES,
    MSG_DONTWAIT,
    epoll_wait,
    errno,
    recv,
    sched_yield,
)

__all__ = ["Connections", "decode_step"]

STEP_COMMANDS = U(512)
"""Having decoded this many a step goes on to no further connection: the matcher waits for it."""

STALLED_MS = 1
"""Longest wait while something is pending that no event will announce."""

HANG_UP = U(select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR)


@kernel
def take_over(connections, slot, login):
    """Make the connection that control put into `slot` the decoder's. False if `login` is past."""
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
def receive(connections, slot):
    """Read once into the free end of the buffer. Returns what recv does, and the size asked for."""
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
def decode_held(connections, ring, slot):
    """Go on with messages that had to wait. Returns commands made, plus one if the input ended."""
    at = slot << LINE_SHIFT
    # From a client that was too slow no further command is taken, from one that left they are.
    if cause_of_drop(connections, at) == U(Ending.SLOW):
        end_input(connections, ring, slot, U(Ending.SLOW))
        return U(1)
    count, outcome = decode(connections, ring, slot)
    if outcome == BAD:
        end_input(connections, ring, slot, U(Ending.BAD_TYPE))
        return count + U(1)
    if outcome != HOLD:
        connections.intake[at + PHASE] = U(Phase.OPEN)
    elif connections.intake[at + PHASE] == U(Phase.OPEN):
        connections.intake[at + PHASE] = U(Phase.HELD)
        connections.decode_counters[DecodeCounter.HELD] += U(1)
    return count


@kernel
def read_and_decode(connections, ring, slot):
    """Read once and decode. Returns commands made, plus one if the input ended."""
    intake, ready, at = connections.intake, connections.ready, slot << LINE_SHIFT
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
    work = decode_held(connections, ring, slot)
    # A short read took all there was. What comes later makes a new event, but for an end of the
    # stream that was announced together with the bytes before it.
    exhausted = size < wanted and not contains(connections.hung, slot)
    if exhausted and intake[at + PHASE] == U(Phase.OPEN):
        remove(ready, slot)
    return work


@kernel
def serve(connections, ring, slot):
    """Do what there is to do for a ready connection. Returns the work, as `decode_step` does."""
    phase = connections.intake[(slot << LINE_SHIFT) + PHASE]
    if phase == U(Phase.OPEN):
        return read_and_decode(connections, ring, slot)
    if phase == U(Phase.HELD):
        return decode_held(connections, ring, slot)
    if phase == U(Phase.ENDED) or phase == U(Phase.LINGERING):
        discard(connections, slot)
    else:
        remove(connections.ready, slot)
    return U(0)


@kernel
def serve_from(connections, ring, slot, last, work):
    """Serve ready connections from `slot` to before `last`, until the step has done enough."""
    while work < STEP_COMMANDS:
        slot = following(connections.ready, slot)
        if slot >= last:
            break
        work += serve(connections, ring, slot)
        slot += U(1)
        connections.cells[TURN] = slot
    return work


@kernel
def gather(connections, timeout_ms):
    """Learn from epoll which connections have something, waiting for at most `timeout_ms`."""
    settings, intake = connections.settings, connections.intake
    events, epoll = settings[Setting.IN_EVENTS], np.int32(settings[Setting.IN_EPOLL])
    count = epoll_wait(epoll, events, EVENTS_MAX, np.int32(timeout_ms))
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
def patience_ms(connections, ring, timeout_ms):
    """How long this step may wait for an event, given what is pending."""
    pending = not empty(connections.ready)
    if pending and connections.cells[STALLED] == U(0):
        return np.int64(0)
    if pending and in_flight(ring) != U(0):
        # The matcher is behind, and will have made room long before a millisecond has passed.
        if timeout_ms != 0:
            sched_yield()
        return np.int64(0)
    if pending or not empty(connections.ended):
        return min(timeout_ms, np.int64(STALLED_MS))
    return timeout_ms


@kernel
def decode_step(connections, ring, timeout_ms):
    """Read what has come from clients into the ring.

    Args:
        timeout_ms: how long to wait for clients when nothing is pending; 0: not at all.
    Returns:
        commands made plus connections ended, u64: 0 if there is nothing new for the matcher.
    """
    cells, ready = connections.cells, connections.ready
    gather(connections, patience_ms(connections, ring, np.int64(timeout_ms)))
    turn = cells[TURN]
    work = serve_from(connections, ring, turn, beyond(ready), U(0))
    work = serve_from(connections, ring, U(0), turn, work)
    finish_ended(connections)
    cells[STALLED] = U(work == U(0) and not empty(ready))
    return work
