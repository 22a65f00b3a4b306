"""How connections end, on the decoder's side. Kernels; connections.py has both sides' steps.

What a client sends after its end is read and forgotten: closing a socket with unread bytes resets
the connection, and the reset may overtake the last reports on their way to the client.

Nobody holds a slot for ever: a client has `DRAIN_NS` to take the reports that wait when its input
ends, and once it has been sent all, `LINGER_NS` to close its own side.
"""

import numpy as np

from matchbox.atomics import U, load_acquire, load_u8, store_release
from matchbox.bitset import add, beyond, following, remove
from matchbox.connections import (
    CAUSE,
    CLOSED,
    DEADLINE,
    DESCRIPTOR,
    DRAINED,
    DROPPED,
    ENDED,
    ENDINGS,
    IN_BYTES,
    LINE_SHIFT,
    LOGIN,
    OFFSET,
    PHASE,
    POSITION,
    REASON,
    START,
    TAKEN,
    TYPE,
    DecodeCounter,
    Ending,
    Phase,
    Setting,
)
from matchbox.jit import kernel
from matchbox.libc import CLOCK_MONOTONIC, clock_ns, close, shutdown
from matchbox.ring import PRODUCER_NEXT

DRAIN_NS = 30_000_000_000
LINGER_NS = 2_000_000_000
SHUT_BOTH = 2


@kernel
def cause_of_drop(connections, at):
    """Why the matcher has dropped this connection; Ending.NONE if it has not."""
    dropped = load_acquire(connections.progress, at + DROPPED) == connections.intake[at + LOGIN]
    return connections.progress[at + CAUSE] if dropped else U(Ending.NONE)


@kernel
def end_input(connections, ring, slot, reason):
    """Tell the matcher that no command of this connection follows, and why."""
    intake, endings, cells = connections.intake, connections.endings, connections.cells
    settings, at = connections.settings, slot << LINE_SHIFT
    # Where a send has failed, what recv says afterwards is only its consequence.
    cause = cause_of_drop(connections, at)
    if cause != U(Ending.NONE):
        reason = cause
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
def finish_ended(connections):
    """Close what both sides are done with, and see to those whose time is up."""
    intake, ended = connections.intake, connections.ended
    slot = following(ended, U(0))
    if slot == beyond(ended):
        return
    now = U(clock_ns(CLOCK_MONOTONIC, connections.settings[Setting.TIMESPEC]))
    while slot != beyond(ended):
        at = slot << LINE_SHIFT
        drained = load_acquire(connections.progress, at + DRAINED) == intake[at + LOGIN]
        phase = intake[at + PHASE]
        overdue = now > intake[at + DEADLINE]
        if drained and (phase == U(Phase.SILENT) or overdue):
            finish(connections, slot)
        elif drained and phase == U(Phase.ENDED):
            intake[at + PHASE] = U(Phase.LINGERING)
            intake[at + DEADLINE] = now + U(LINGER_NS)
        elif overdue:
            # The matcher's next send fails, and then it is drained.
            shutdown(np.int32(intake[at + DESCRIPTOR]), SHUT_BOTH)
            connections.decode_counters[DecodeCounter.OVERDUE] += U(1)
            intake[at + DEADLINE] = now + U(DRAIN_NS)
        slot = following(ended, slot + U(1))
