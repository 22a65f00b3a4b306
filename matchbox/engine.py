"""The engine: one command's way from the ring to the wire, and the loop that walks it.

    decode or feed -> ring -> log it -> match it -> log its reports -> publish them -> own reports

`decode`, `wal`, `book` and `publish` do not know one another; this file composes them and is the
only place that says in which order they act. Two gates hold here and nowhere else:

    1  a command is matched only after its record is in the log;
    2  a report leaves only after it is in the report log, and so after its command is.

Every thread runs the same kernel, `run`, with other roles: all of them on one thread (`shared`) or
decoding on one and matching on another (`dedicated`). Cells that two threads share are read with
`load_acquire` and written with `store_release`.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from matchbox.atomics import U, cycles, fence, load_acquire, store_ordered, store_release, store_u64
from matchbox.book.ahead import look_ahead, prime
from matchbox.book.apply import apply
from matchbox.book.state import OUTBOX_SOFT, Book
from matchbox.connections import Connections, Setting
from matchbox.constants import Halt
from matchbox.decode.entry import decode_step
from matchbox.decode.feed import Source, feed_step
from matchbox.idle import busy, idle, timespec_of
from matchbox.jit import kernel
from matchbox.libc import CLOCK_MONOTONIC, POLLIN, clock_ns, poll, read, sched_yield, write
from matchbox.publish.moldudp64 import Publisher, end_of_stream, heartbeat
from matchbox.publish.moldudp64 import publish as publish_reports
from matchbox.publish.own import deliver, drained, flush
from matchbox.ring import Ring, available, mask_of, release
from matchbox.wal.append import (
    append_command,
    append_report,
    commit,
    failed,
    last_sequence,
    make_room,
)
from matchbox.wal.state import Log


class Role(IntEnum):
    """What a thread does each round, as bits."""

    DECODE = 1  # sockets -> ring
    FEED = 2  # file -> ring
    MATCH = 4  # ring -> log -> book -> reports


class Stop(IntEnum):
    """What the control plane asks for. Only ever raised."""

    RUN = 0
    INTAKE = 1  # read no further commands
    DRAIN = 2  # finish what is in the ring, deliver all of it, end the stream and return
    LEAVE = 3  # the same, but wait no longer for clients to read what is theirs


class Stage(IntEnum):
    """Parts of a step, for measuring."""

    LOG_AND_MATCH = 0
    LOG_REPORTS = 1
    PUBLISH = 2
    DELIVER = 3


# Cells shared by the threads and the control plane, each on a line pair of its own.
STOP, ASLEEP = U(0), U(16)
CELL_WORDS = 32

BATCH = U(512)
"""Commands a step at the most: what waits in the ring bounds how long the first report of a batch
waits."""


class Core(NamedTuple):
    """All that the loop touches. Allocated by `exchange.py`."""

    ring: Ring
    source: Source
    connections: Connections
    commands: Log
    reports: Log
    book: Book
    outbox: np.ndarray  # u64[entries * 8]: reports of the current step
    publisher: Publisher
    cells: np.ndarray  # u64[32], above
    bell: np.ndarray  # i64[2]: eventfd that wakes a parked matcher; address of 32 bytes of scratch


@kernel
def log_and_match(commands, book, words, mask, first, last, outbox, latency):
    """Log, then match, the records at positions [first, last) of `words`; the log has room for
    them.

    Stops early when the outbox holds a batch. `latency`, u64[...] by position or None, receives
    the cycles that each command took, its log append included. Returns the position reached and
    the reports made.
    """
    made = U(0)
    position = first
    prime(book, words, mask, first, last)
    while position < last and made < U(OUTBOX_SOFT):
        if latency is not None:
            start = cycles()
        look_ahead(book, words, mask, position, last)
        at = (position & mask) << U(3)
        made = apply(book, words, at, append_command(commands, words, at), outbox, made)
        if latency is not None:
            latency[position] = cycles() - start
        position += U(1)
    commit(commands)
    return position, made


@kernel
def log_reports(reports, outbox, made):
    """Append outbox entries [0, made) to the report log, over as many segments as it takes.

    One command can make more reports than a segment holds, so this waits for the next one in place.
    False if there will be none.
    """
    entry = U(0)
    while entry < made:
        end = entry + make_room(reports, made - entry)
        if end == entry:
            if failed(reports):
                return False
            sched_yield()
        while entry < end:
            append_report(reports, outbox, entry << U(3))
            entry += U(1)
    commit(reports)
    return True


@kernel
def lap(stages, stage, since):
    """Add the cycles since `since` to a stage's count, if stages are measured. Returns the time
    now."""
    if stages is None:
        return since
    now = cycles()
    stages[stage] += now - since
    return now


@kernel
def match_step(core, stages):
    """Take what waits in the ring all the way.

    stages: u64[`Stage`], receives the cycles of each, or None. Returns the commands done and a
    `Halt` code.
    """
    first, waiting = available(core.ring, BATCH)
    if waiting == U(0):
        return U(0), U(Halt.NONE)
    count = make_room(core.commands, waiting)
    if count == U(0):
        return U(0), U(Halt.LOG_FAILED if failed(core.commands) else Halt.NONE)
    time = U(0) if stages is None else cycles()
    words, mask = core.ring.slots, mask_of(core.ring)
    first_sequence = last_sequence(core.commands) + U(1)
    last, made = log_and_match(
        core.commands, core.book, words, mask, first, first + count, core.outbox, None
    )
    time = lap(stages, Stage.LOG_AND_MATCH, time)
    if not log_reports(core.reports, core.outbox, made):
        return U(0), U(Halt.LOG_FAILED)
    time = lap(stages, Stage.LOG_REPORTS, time)
    if publish_reports(core.publisher, core.outbox, U(0), made) != U(0):
        return U(0), U(Halt.PUBLICATION)
    time = lap(stages, Stage.PUBLISH, time)
    deliver(core.connections, words, mask, first, first_sequence, core.outbox, made)
    lap(stages, Stage.DELIVER, time)
    release(core.ring, last)
    return last - first, U(Halt.NONE)


@kernel(entry=True)
def send_unsent(core, made):
    """After a crash: log and send outbox entries [0, made), which recovery made and nobody has
    seen."""
    if not log_reports(core.reports, core.outbox, made):
        return U(Halt.LOG_FAILED)
    if publish_reports(core.publisher, core.outbox, U(0), made) != U(0):
        return U(Halt.PUBLICATION)
    return U(Halt.NONE)


@kernel
def park(core, timeout_ms):
    """Matcher: block until the decoder rings, a client can be sent to again, or the time is up.

    The decoder stores its cursor, then reads ASLEEP; the matcher stores ASLEEP, then reads the
    cursor. Both have a full fence between the two, so one of them sees the other and no wake-up is
    lost.
    """
    store_ordered(core.cells, ASLEEP, U(1))
    fence()
    _, waiting = available(core.ring, U(1))
    if waiting == U(0):
        bell, scratch = core.bell[0], core.bell[1]
        for i, descriptor in enumerate((bell, core.connections.settings[Setting.OUT_EPOLL])):
            store_u64(scratch + 8 * i, U(descriptor) | (U(POLLIN) << U(32)))  # struct pollfd
        if poll(scratch, 2, timeout_ms) > 0:
            read(bell, scratch, 8)
    store_release(core.cells, ASLEEP, U(0))


@kernel
def ring_bell(core):
    """Decoder: wake a parked matcher."""
    fence()
    if load_acquire(core.cells, ASLEEP) != U(0):
        store_release(core.cells, ASLEEP, U(0))
        scratch = core.bell[1] + 16
        store_u64(scratch, U(1))
        write(core.bell[0], scratch, 8)


@kernel
def finished(core, stop):
    """Matcher, when a round found no work: may it go? Clients get what is theirs unless the time is
    up."""
    _, waiting = available(core.ring, U(1))  # some may wait for a segment of the log
    if waiting != U(0):
        return False
    return stop == U(Stop.LEAVE) or (stop == U(Stop.DRAIN) and drained(core.connections))


@kernel(entry=True)
def run(core, roles, strategy, quiet):
    """One thread's life: its steps, round after round, until the control plane says stop.

    Args:
        roles: `Role` bits. Each role is held by exactly one thread.
        strategy: of `idle`.
        quiet: this thread's idle state, see `idle.allocate`.
    Returns:
        a `Halt` code.
    """
    matcher = roles & U(Role.MATCH) != U(0)
    decoder = roles & U(Role.DECODE) != U(0)
    feeder = roles & U(Role.FEED) != U(0)
    timeout_ms = 0
    while True:
        stop = load_acquire(core.cells, STOP)
        if stop != U(Stop.RUN) and not matcher:
            return U(Halt.NONE)
        worked = U(0)
        if decoder and stop == U(Stop.RUN):
            worked += decode_step(core.connections, core.ring, timeout_ms)
        if feeder and stop == U(Stop.RUN):
            worked += feed_step(core.source, core.ring, BATCH)
        if matcher:
            done, halt = match_step(core, None)
            worked += done
            if halt != U(Halt.NONE):
                return halt
        elif worked != U(0):
            ring_bell(core)
        timeout_ms = 0
        if worked != U(0):
            busy(quiet)
            continue
        now_ns = clock_ns(CLOCK_MONOTONIC, timespec_of(quiet))
        if matcher:
            flush(core.connections)
            heartbeat(core.publisher, U(now_ns))
            if finished(core, stop):
                end_of_stream(core.publisher)
                return U(Halt.NONE)
        timeout_ms = idle(quiet, strategy, now_ns)
        if timeout_ms and not decoder:
            if matcher:
                park(core, timeout_ms)
            else:
                poll(0, 0, 1)
