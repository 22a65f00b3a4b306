"""A stand-in for the engine between decode and own reports, as kernels, for tests of order entry.

Every command makes one report: kind ACCEPTED, reference its own sequence, contra the order_id, side
the command's type, instrument and quantity as sent. A `price` that is not 0 is a login: a second
report, EXECUTED, names an order of that login. So a test knows from the commands alone who must get
which bytes.
"""

from typing import NamedTuple

import numpy as np

from matchbox import ring as rings
from matchbox.atomics import U, load_acquire, pause
from matchbox.connections import Connections
from matchbox.constants import Kind, ReportFlag
from matchbox.decode.entry import decode_step
from matchbox.jit import kernel
from matchbox.libc import sched_yield
from matchbox.publish.own import deliver, drained, flush
from matchbox.ring import Ring, available, mask_of, release, word_at

LOW = U(0xFFFFFFFF)
ACCEPTED = U(Kind.ACCEPTED << 32)
EXECUTED = U(Kind.EXECUTED << 32)
LAST = U(ReportFlag.LAST << 56)
BATCH = U(512)

# cells
STOP, COMMANDS, REPORTS, KEPT = U(0), U(16), U(17), U(18)


class Desk(NamedTuple):
    connections: Connections
    ring: Ring
    outbox: np.ndarray  # u64[2 * BATCH * 8]
    kept: np.ndarray  # u64[records * 8]: what came through the ring, as far as there is room
    cells: np.ndarray  # u64[64]


def desk(connections: Connections, slots: int = 1 << 10, keep: int = 1 << 12) -> Desk:
    return Desk(
        connections,
        rings.allocate(slots),
        np.zeros(2 * int(BATCH) * 8, np.uint64),
        np.zeros(keep * 8, np.uint64),
        np.zeros(64, np.uint64),
    )


@kernel
def match(desk, first, last):
    """Make the reports of ring positions [first, last) in the outbox. Returns how many."""
    slots, outbox, cells = desk.ring.slots, desk.outbox, desk.cells
    made, position = U(0), first
    while position < last:
        at = word_at(desk.ring, position)
        if cells[KEPT] * U(8) < U(desk.kept.size):
            for word in range(8):
                desk.kept[cells[KEPT] * U(8) + U(word)] = slots[at + U(word)]
            cells[KEPT] += U(1)
        cells[COMMANDS] += U(1)
        command, type = slots[at + U(3)], slots[at + U(3)] & U(0xFF)
        resting = slots[at + U(5)]
        word5 = (command >> U(32)) | (type << U(40))
        for part in range(2 if resting != U(0) else 1):
            to = made << U(3)
            cells[REPORTS] += U(1)
            outbox[to] = cells[REPORTS]
            outbox[to + U(1)] = cells[REPORTS]
            outbox[to + U(2)] = slots[at + U(4)]
            outbox[to + U(3)] = resting
            outbox[to + U(4)] = slots[at + U(6)]
            outbox[to + U(5)] = word5 | (ACCEPTED if part == 0 else EXECUTED)
            outbox[to + U(6)] = slots[at] & LOW if part == 0 else resting
            outbox[to + U(7)] = cells[COMMANDS] << U(32)
            made += U(1)
        outbox[((made - U(1)) << U(3)) + U(5)] |= LAST
        position += U(1)
    return made


@kernel
def match_step(desk):
    first, waiting = available(desk.ring, BATCH)
    if waiting == U(0):
        flush(desk.connections)
        return U(0)
    first_sequence = desk.cells[COMMANDS] + U(1)
    made = match(desk, first, first + waiting)
    mask = mask_of(desk.ring)
    deliver(desk.connections, desk.ring.slots, mask, first, first_sequence, desk.outbox, made)
    release(desk.ring, first + waiting)
    return waiting


@kernel(entry=True)
def run_shared(desk, timeout_ms):
    """Both on one thread, until STOP; then what is in the ring is finished."""
    timeout = 0
    while load_acquire(desk.cells, STOP) == U(0):
        work = decode_step(desk.connections, desk.ring, timeout) + match_step(desk)
        timeout = timeout_ms if work == U(0) else 0
    while match_step(desk) != U(0):
        pause()


@kernel(entry=True)
def run_decode(desk, timeout_ms):
    timeout = 0
    while load_acquire(desk.cells, STOP) == U(0):
        work = decode_step(desk.connections, desk.ring, timeout)
        timeout = timeout_ms if work == U(0) else 0


@kernel(entry=True)
def run_match(desk):
    """Until STOP is 2 or more."""
    while load_acquire(desk.cells, STOP) < U(2):
        if match_step(desk) == U(0):
            sched_yield()
    while match_step(desk) != U(0):
        pause()


@kernel(entry=True)
def decode_once(desk, timeout_ms):
    return decode_step(desk.connections, desk.ring, timeout_ms)


@kernel(entry=True)
def match_once(desk):
    return match_step(desk)


@kernel(entry=True)
def is_drained(desk):
    return drained(desk.connections)
