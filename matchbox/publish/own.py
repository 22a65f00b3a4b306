"""Own reports: each report to the connections it concerns. Kernels, on the matcher's thread.

`deliver` gives a report, 48 bytes as they are and unframed, to the connection whose command caused it and to the one
that entered the order which it names. Both are known by their logins, never by what is in the slot now. Reports are
copied once, into the connection's out buffer; at the end of the step each buffer that holds something is sent, as
far as its socket takes it. Nothing here blocks.

A socket that takes no more is left alone (`blocked`) until its edge-triggered event says that it can be written
again; while there is any such connection a step costs one more system call, however many they are.

A client that does not read its reports is first no longer read from (decode/entry.py). If its buffer overflows
all the same, by executions of its resting orders, it is dropped and counted: no live connection ever
misses a report. Reports of dropped and of broken connections are counted and discarded; their orders stay.

The out buffer is circular, a whole number of reports long, and starts again at its first byte whenever it
runs empty, so that its hot part is small.
"""

import numpy as np

from matchbox.atomics import U, load_acquire, load_u64, store_release, store_u64
from matchbox.bitset import add, beyond, contains, empty, following, remove
from matchbox.connections import (
    BACKLOG,
    CAUSE,
    DESCRIPTOR,
    DRAINED,
    DROPPED,
    ENDED,
    ENDINGS,
    ENDINGS_SEEN,
    EVENTS_MAX,
    FATE,
    FILL,
    LINE_SHIFT,
    LOGIN,
    OFFSET,
    OPENED,
    POSITION,
    REACHED,
    READ,
    REASON,
    TYPE,
    WRITE,
    Connections,
    Ending,
    Fate,
    OwnCounter,
    Setting,
)
from matchbox.constants import Kind, Reason, ReportFlag
from matchbox.jit import kernel
from matchbox.libc import (
    EAGAIN,
    EINTR,
    ENOBUFS,
    EPOLL_DATA_OFFSET,
    EPOLL_EVENT_BYTES,
    MSG_DONTWAIT,
    MSG_NOSIGNAL,
    epoll_wait,
    errno,
    send,
    shutdown,
)
from matchbox.schema import REPORT_BYTES, REPORT_LAYOUT

__all__ = ["Connections", "deliver", "drained", "flush"]

LOW = U(0xFFFFFFFF)
HIGH_SHIFT = U(32)
SEND_FLAGS = MSG_DONTWAIT | MSG_NOSIGNAL
SHUT_SENDING, SHUT_BOTH = 1, 2

WORD_5 = REPORT_LAYOUT.offsets()["instrument"]
KIND_SHIFT, REASON_SHIFT, FLAGS_SHIFT = (
    8 * (REPORT_LAYOUT.offsets()[name] - WORD_5) for name in ("kind", "reason", "flags")
)
REFUSAL = U((Kind.REJECTED << KIND_SHIFT) | (ReportFlag.LAST << FLAGS_SHIFT))
assert WORD_5 == 5 * 8


@kernel
def slot_of(connections, login):
    return login & U(connections.settings[Setting.CAPACITY] - 1)


@kernel
def take_over(connections, slot, login):
    """Make the connection in `slot` known to the matcher. False if it is another one: `login` is of the past."""
    control, outs = connections.control, connections.outs
    at = slot << LINE_SHIFT
    if load_acquire(control, at + OPENED) != login:
        return False
    outs[at + LOGIN] = login
    outs[at + DESCRIPTOR] = control[at + DESCRIPTOR]
    outs[at + WRITE] = U(0)
    outs[at + READ] = U(0)
    outs[at + FILL] = U(0)
    outs[at + FATE] = U(Fate.LIVE)
    return True


@kernel
def let_go(connections, slot):
    """Forget what waits and send nothing more."""
    outs, at = connections.outs, slot << LINE_SHIFT
    connections.own_counters[OwnCounter.DISCARDED_BYTES] += outs[at + FILL]
    outs[at + FILL] = U(0)
    outs[at + FATE] = U(Fate.GONE)
    remove(connections.waiting, slot)
    remove(connections.blocked, slot)
    store_release(connections.progress, at + BACKLOG, U(0))


@kernel
def drop(connections, slot, cause):
    """Part with a client at once. The decoder is woken by the shut socket, and closes it."""
    outs, progress, at = connections.outs, connections.progress, slot << LINE_SHIFT
    let_go(connections, slot)
    progress[at + CAUSE] = cause
    store_release(progress, at + DROPPED, outs[at + LOGIN])
    shutdown(np.int32(outs[at + DESCRIPTOR]), SHUT_BOTH)


@kernel
def send_waiting(connections, slot):
    """Send until nothing waits or the socket takes no more."""
    settings, outs, counters = connections.settings, connections.outs, connections.own_counters
    at = slot << LINE_SHIFT
    size = U(settings[Setting.OUT_BYTES])
    buffer = settings[Setting.OUT_BUFFERS] + np.int64(slot) * np.int64(size)
    while outs[at + FILL] != U(0):
        read = outs[at + READ]
        span = min(outs[at + FILL], size - read)
        descriptor = np.int32(outs[at + DESCRIPTOR])
        sent = send(descriptor, buffer + np.int64(read), np.int64(span), SEND_FLAGS)
        counters[OwnCounter.SENDS] += U(1)
        if sent < 0:
            why = errno()
            if why == U(EINTR):
                continue
            if why == U(EAGAIN):
                add(connections.blocked, slot)
                counters[OwnCounter.BLOCKED] += U(1)
            elif why != U(ENOBUFS):
                drop(connections, slot, U(Ending.LOST))
            return
        counters[OwnCounter.BYTES] += U(sent)
        outs[at + READ] = U(0) if read + U(sent) == size else read + U(sent)
        outs[at + FILL] -= U(sent)
    outs[at + READ] = U(0)
    outs[at + WRITE] = U(0)
    remove(connections.blocked, slot)


@kernel
def make_room(connections, slot):
    """There is no room for a report: try to send; if that does not help the client is too slow to stay."""
    at = slot << LINE_SHIFT
    send_waiting(connections, slot)
    fits = connections.outs[at + FILL] + U(REPORT_BYTES) <= U(connections.settings[Setting.OUT_BYTES])
    if not fits and connections.outs[at + FATE] != U(Fate.GONE):
        drop(connections, slot, U(Ending.SLOW))
    return connections.outs[at + FATE] != U(Fate.GONE)


@kernel
def put(connections, slot, w0, w1, w2, w3, w4, w5):
    """Copy a report into a connection's out buffer."""
    settings, outs = connections.settings, connections.outs
    at = slot << LINE_SHIFT
    size = U(settings[Setting.OUT_BYTES])
    if outs[at + FILL] + U(REPORT_BYTES) > size and not make_room(connections, slot):
        return
    write = outs[at + WRITE]
    place = settings[Setting.OUT_BUFFERS] + np.int64(slot * size + write)
    store_u64(place, w0)
    store_u64(place + 8, w1)
    store_u64(place + 16, w2)
    store_u64(place + 24, w3)
    store_u64(place + 32, w4)
    store_u64(place + 40, w5)
    write += U(REPORT_BYTES)
    outs[at + WRITE] = U(0) if write == size else write
    outs[at + FILL] += U(REPORT_BYTES)
    add(connections.waiting, slot)
    connections.own_counters[OwnCounter.REPORTS] += U(1)


@kernel
def give(connections, login, outbox, at):
    """A report to the connection of `login`, if it still is one."""
    outs, slot = connections.outs, slot_of(connections, login)
    line = slot << LINE_SHIFT
    if outs[line + LOGIN] != login and not take_over(connections, slot, login):
        return
    if outs[line + FATE] == U(Fate.LIVE):
        put(
            connections,
            slot,
            outbox[at],
            outbox[at + U(1)],
            outbox[at + U(2)],
            outbox[at + U(3)],
            outbox[at + U(4)],
            outbox[at + U(5)],
        )


@kernel
def deliver(connections, words, mask, first, first_sequence, outbox, count):
    """Give outbox entries [0, count) to the connections they concern, and send.

    Args:
        words: u64[...], the ring's slots; the command of command_sequence `first_sequence` is that of position
            `first`, at words[(first & mask) * 8].
        outbox: u64[entries * 8], whole commands' reports in order.
    """
    entry, position = U(0), first
    while entry < count:
        at = entry << U(3)
        position = first + (((outbox[at + U(7)] >> HIGH_SHIFT) - first_sequence) & LOW)
        sender = words[(position & mask) << U(3)] & LOW
        owner = outbox[at + U(6)] & LOW
        if sender != U(0):
            give(connections, sender, outbox, at)
        if owner != U(0) and owner != sender:
            give(connections, owner, outbox, at)
        entry += U(1)
    if count != U(0):
        connections.cells[REACHED] = position + U(1)
    flush(connections)


@kernel
def note_endings(connections):
    """See which connections the decoder has ended since the last look."""
    cells, endings = connections.cells, connections.endings
    count = load_acquire(cells, ENDINGS)
    if count == cells[ENDINGS_SEEN]:
        return
    cells[ENDINGS_SEEN] = count
    slot = U(0)
    while slot < U(connections.settings[Setting.CAPACITY]):
        at = slot << LINE_SHIFT
        login = load_acquire(endings, at + ENDED)
        if login != connections.progress[at + DRAINED]:
            if connections.outs[at + LOGIN] != login:
                take_over(connections, slot, login)
            add(connections.leaving, slot)
        slot += U(1)


@kernel
def see_off(connections, slot):
    """Take an ended connection as far as it goes now; once nothing waits for it, it is the decoder's to close."""
    outs, endings, progress = connections.outs, connections.endings, connections.progress
    at = slot << LINE_SHIFT
    if connections.cells[REACHED] < endings[at + POSITION]:
        return
    if outs[at + FATE] == U(Fate.LIVE):
        reason = endings[at + REASON]
        if reason == U(Ending.RESET):
            let_go(connections, slot)
        else:
            outs[at + FATE] = U(Fate.LEAVING)
            if reason == U(Ending.BAD_TYPE) or reason == U(Ending.TRUNCATED):
                code = U(Reason.BAD_TYPE) if reason == U(Ending.BAD_TYPE) else U(Reason.TRUNCATED)
                contra, quantity = endings[at + TYPE], endings[at + OFFSET]
                word5 = REFUSAL | (code << U(REASON_SHIFT))
                put(connections, slot, U(0), U(0), contra, U(0), quantity, word5)
                if outs[at + FATE] == U(Fate.LEAVING):
                    send_waiting(connections, slot)
    if outs[at + FATE] == U(Fate.LEAVING) and outs[at + FILL] == U(0):
        shutdown(np.int32(outs[at + DESCRIPTOR]), SHUT_SENDING)
        let_go(connections, slot)
    if outs[at + FATE] == U(Fate.GONE):
        remove(connections.leaving, slot)
        store_release(progress, at + DRAINED, outs[at + LOGIN])


@kernel
def note_writable(connections):
    """Which of the blocked sockets can be written again?"""
    settings, blocked = connections.settings, connections.blocked
    events = settings[Setting.OUT_EVENTS]
    count = EVENTS_MAX
    while count == EVENTS_MAX:
        count = epoll_wait(np.int32(settings[Setting.OUT_EPOLL]), events, EVENTS_MAX, np.int32(0))
        for index in range(count):
            login = load_u64(events + index * EPOLL_EVENT_BYTES + EPOLL_DATA_OFFSET)
            slot = slot_of(connections, login)
            if connections.outs[(slot << LINE_SHIFT) + LOGIN] == login:
                remove(blocked, slot)


@kernel
def flush(connections):
    """Send what waits as far as sockets take it, and see ended connections off. Call it also when idle."""
    waiting, blocked, leaving = connections.waiting, connections.blocked, connections.leaving
    note_endings(connections)
    if not empty(blocked):
        note_writable(connections)
    slot = following(waiting, U(0))
    while slot != beyond(waiting):
        at = slot << LINE_SHIFT
        if not contains(blocked, slot):
            send_waiting(connections, slot)
        backlog = connections.outs[at + FILL]
        if backlog == U(0):
            remove(waiting, slot)
        store_release(connections.progress, at + BACKLOG, backlog)
        slot = following(waiting, slot + U(1))
    slot = following(leaving, U(0))
    while slot != beyond(leaving):
        see_off(connections, slot)
        slot = following(leaving, slot + U(1))


@kernel
def drained(connections):
    """Whether every report has been sent and no ended connection waits. Of the matcher's thread, ring empty."""
    seen = load_acquire(connections.cells, ENDINGS) == connections.cells[ENDINGS_SEEN]
    return seen and empty(connections.waiting) and empty(connections.leaving)
