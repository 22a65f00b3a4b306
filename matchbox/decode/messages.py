"""Bytes of one client become records in the ring. Kernels, on the decoder's thread.

    message = the first bytes of a COMMAND: 16 of a cancel, 40 of any other; no framing between

Whole messages become slots. A message that is not all there moves to the start of the buffer, until
the rest has come. Whole messages that find no room stay where they are.

There are two kinds of room. Slots of the ring; and room for reports: a connection may have as many
commands on the way as half its out buffer has room for reports (all that is in the ring counts as
if it were its own). The other half is for further reports of those commands and for executions of
its resting orders.

Stamps: login and account on every record, the login in the command of an enter as well, and the
wall clock, read once for all messages that are decoded together. It never goes back behind the last
stamp.
"""

import numpy as np

from matchbox.atomics import U, copy_bytes, load_acquire, load_u64
from matchbox.connections import (
    BACKLOG,
    END,
    IN_BYTES,
    LAST_TIME_NS,
    LINE_SHIFT,
    STAMP,
    START,
    TAKEN,
    DecodeCounter,
    Setting,
)
from matchbox.constants import CLIENT_TYPES, CommandType
from matchbox.jit import kernel
from matchbox.libc import CLOCK_REALTIME, clock_ns
from matchbox.ring import CONSUMER, PRODUCER_GATE, PRODUCER_NEXT, claim, count_of, mask_of, publish
from matchbox.schema import CANCEL_BYTES, COMMAND_BYTES, REPORT_BYTES

ENTER, CANCEL = U(CommandType.ENTER), U(CommandType.CANCEL)
CLIENT_TYPE_BITS = U(sum(1 << code for code in CLIENT_TYPES))
TYPE_BITS = U(64)
TYPE_MASK = U(0xFF)
LOW, HIGH_SHIFT = U(0xFFFFFFFF), U(32)

PUBLISH_COMMANDS = U(64)
"""Within a long read the matcher is given work this often."""

# Outcomes of `decode`.
TAKEN_ALL = U(0)  # nothing is left but the beginning of a message
HOLD = U(1)  # whole messages are left for want of room
BAD = U(2)  # what follows is no message that a client may send


@kernel
def stamp_ns(connections):
    """Time of the records to come."""
    cells = connections.cells
    now = U(clock_ns(CLOCK_REALTIME, connections.settings[Setting.TIMESPEC]))
    cells[LAST_TIME_NS] = max(cells[LAST_TIME_NS], now)
    return cells[LAST_TIME_NS]


@kernel
def in_flight(ring):
    """Commands that the matcher has not released, as of now."""
    cursors = ring.cursors
    cursors[PRODUCER_GATE] = load_acquire(cursors, CONSUMER)
    return cursors[PRODUCER_NEXT] - cursors[PRODUCER_GATE]


@kernel
def report_room(connections, ring, at):
    """How many commands a connection may add to those on the way."""
    half = U(connections.settings[Setting.OUT_BYTES] >> 1)
    cursors = ring.cursors
    # The consumer's cursor first: reports of what it had released are in the backlog read then.
    used = (cursors[PRODUCER_NEXT] - cursors[PRODUCER_GATE]) * U(REPORT_BYTES)
    used += load_acquire(connections.progress, at + BACKLOG)
    if used >= half >> U(1):
        used = in_flight(ring) * U(REPORT_BYTES)
        used += load_acquire(connections.progress, at + BACKLOG)
    return (half - used) // U(REPORT_BYTES) if used < half else U(0)


@kernel
def put_record(slots, to, place, stamp, time):
    """Make the slot at word `to` of the message at `place`, whole or a cancel.

    No branch on the type: in a mixed stream it would be mispredicted every other time. Of a cancel
    the bytes behind it are read too, and not used.
    """
    word = load_u64(place)
    type = word & TYPE_MASK
    whole = U(type == CANCEL) - U(1)  # all ones, or zero
    unless_enter = U(type == ENTER) - U(1)
    last = load_u64(place + 32) & whole
    slots[to] = stamp
    slots[to + U(1)] = U(0)
    slots[to + U(2)] = time
    slots[to + U(3)] = word
    slots[to + U(4)] = load_u64(place + 8)
    slots[to + U(5)] = load_u64(place + 16) & whole
    slots[to + U(6)] = load_u64(place + 24) & whole
    slots[to + U(7)] = (last & (LOW | unless_enter)) | ((stamp << HIGH_SHIFT) & ~unless_enter)


@kernel
def decode(connections, ring, slot):
    """Move whole messages from a connection's buffer into the ring.

    Returns how many commands, and an outcome: TAKEN_ALL, HOLD or BAD.
    """
    intake, at = connections.intake, slot << LINE_SHIFT
    next, free = claim(ring, count_of(ring))
    free = min(free, report_room(connections, ring, at))
    if free == U(0):
        return U(0), HOLD
    buffer = connections.settings[Setting.IN_BUFFERS] + np.int64(slot) * IN_BYTES
    start, end = buffer + np.int64(intake[at + START]), buffer + np.int64(intake[at + END])
    stamp, time, mask = intake[at + STAMP], stamp_ns(connections), mask_of(ring)
    place, count, outcome = start, U(0), TAKEN_ALL
    while place < end:
        if count == free:
            outcome = HOLD
            break
        type = load_u64(place) & TYPE_MASK
        if type >= TYPE_BITS or (CLIENT_TYPE_BITS >> type) & U(1) == U(0):
            outcome = BAD
            break
        size = np.int64(CANCEL_BYTES if type == CANCEL else COMMAND_BYTES)
        if end - place < size:
            break
        put_record(ring.slots, ((next + count) & mask) << U(3), place, stamp, time)
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
