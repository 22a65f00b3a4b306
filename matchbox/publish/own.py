"""Own reports: each report to the connections it concerns. Kernels, on the matcher's thread.

A report, 48 bytes as they are and unframed, goes to the connection whose command caused it, and to
the one that entered the order which it names, if that is another one. Both are known by their
logins, never by what is in the slot now. Reports are copied once, into the out buffer (outs.py); at
the end of the step every buffer that holds something is sent as far as its socket takes it.

A socket that takes no more is left alone until its edge-triggered event says that it can be written
again. While there is any such connection a step costs one more system call, however many they are.

A client that does not read its reports is first no longer read from (decode/messages.py). If its
buffer overflows all the same, by executions of its resting orders, it is dropped and counted: no
live connection ever misses a report. Its orders stay.
"""

import numpy as np

from matchbox.atomics import U, load_acquire, load_u64, store_release
from matchbox.bitset import add, beyond, contains, empty, following, remove
from matchbox.connections import (
    BACKLOG,
    DESCRIPTOR,
    DRAINED,
    ENDED,
    ENDINGS,
    ENDINGS_SEEN,
    EVENTS_MAX,
    FATE,
    FILL,
    LINE_SHIFT,
    LOGIN,
    OFFSET,
    POSITION,
    REACHED,
    REASON,
    TYPE,
    Connections,
    Ending,
    Fate,
    Setting,
    slot_of,
)
from matchbox.constants import Kind, Reason, ReportFlag
from matchbox.jit import kernel
from matchbox.libc import EPOLL_DATA_OFFSET, EPOLL_EVENT_BYTES, epoll_wait, shutdown
from matchbox.publish.outs import has_room, let_go, make_room, put, send_waiting, take_over
from matchbox.schema import REPORT_LAYOUT

__all__ = ["Connections", "deliver", "drained", "flush"]

LOW, HIGH_SHIFT = U(0xFFFFFFFF), U(32)
SHUT_SENDING = 1

WORD_5 = REPORT_LAYOUT.offsets()["instrument"]
KIND_SHIFT, REASON_SHIFT, FLAGS_SHIFT = (
    8 * (REPORT_LAYOUT.offsets()[name] - WORD_5) for name in ("kind", "reason", "flags")
)
REFUSAL = U((Kind.REJECTED << KIND_SHIFT) | (ReportFlag.LAST << FLAGS_SHIFT))
assert WORD_5 == 5 * 8


@kernel
def give(connections, login, outbox, at):
    """A report to the connection of `login`, if that is still one."""
    outs, slot = connections.outs, slot_of(connections, login)
    line = slot << LINE_SHIFT
    if outs[line + LOGIN] != login and not take_over(connections, slot, login):
        return
    if outs[line + FATE] != U(Fate.LIVE):
        return
    if not has_room(connections, slot) and not make_room(connections, slot):
        return
    w0, w1, w2 = outbox[at], outbox[at + U(1)], outbox[at + U(2)]
    w3, w4, w5 = outbox[at + U(3)], outbox[at + U(4)], outbox[at + U(5)]
    put(connections, slot, w0, w1, w2, w3, w4, w5)


@kernel
def deliver(connections, words, mask, first, first_sequence, outbox, count):
    """Give outbox entries [0, count) to the connections they concern, and send.

    Args:
        words: u64[...], the ring's slots, not released yet: the record of position p is at
            words[(p & mask) * 8], and that of `first` got the command_sequence `first_sequence`.
        outbox: u64[entries * 8], the reports of whole commands in order.
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
    cells, endings, progress = connections.cells, connections.endings, connections.progress
    count = load_acquire(cells, ENDINGS)
    if count == cells[ENDINGS_SEEN]:
        return
    cells[ENDINGS_SEEN] = count
    slot = U(0)
    while slot < U(connections.settings[Setting.CAPACITY]):
        at = slot << LINE_SHIFT
        login = load_acquire(endings, at + ENDED)
        if login != progress[at + DRAINED]:
            if connections.outs[at + LOGIN] != login:
                take_over(connections, slot, login)  # it never sent a command
            add(connections.leaving, slot)
        slot += U(1)


@kernel
def say_farewell(connections, slot):
    """Put the last report of a refused connection into its buffer. No other follows it."""
    endings, at = connections.endings, slot << LINE_SHIFT
    reason = endings[at + REASON]
    if reason == U(Ending.BAD_TYPE) or reason == U(Ending.TRUNCATED):
        if not has_room(connections, slot):
            return
        code = U(Reason.BAD_TYPE) if reason == U(Ending.BAD_TYPE) else U(Reason.TRUNCATED)
        word5 = REFUSAL | (code << U(REASON_SHIFT))
        contra, quantity = endings[at + TYPE], endings[at + OFFSET]
        put(connections, slot, U(0), U(0), contra, U(0), quantity, word5)
        send_waiting(connections, slot)
    if connections.outs[at + FATE] == U(Fate.LIVE):
        connections.outs[at + FATE] = U(Fate.LEAVING)


@kernel
def see_off(connections, slot):
    """Take an ended connection as far as it goes now; when it is drained the decoder may close."""
    outs, endings, at = connections.outs, connections.endings, slot << LINE_SHIFT
    if connections.cells[REACHED] < endings[at + POSITION]:
        return
    if outs[at + FATE] == U(Fate.LIVE):
        if endings[at + REASON] == U(Ending.RESET):
            let_go(connections, slot)
        else:
            say_farewell(connections, slot)
    if outs[at + FATE] == U(Fate.LEAVING) and outs[at + FILL] == U(0):
        shutdown(np.int32(outs[at + DESCRIPTOR]), SHUT_SENDING)
        let_go(connections, slot)
    if outs[at + FATE] == U(Fate.GONE):
        remove(connections.leaving, slot)
        store_release(connections.progress, at + DRAINED, outs[at + LOGIN])


@kernel
def note_writable(connections):
    """See which of the blocked sockets can be written again."""
    settings = connections.settings
    events, epoll = settings[Setting.OUT_EVENTS], np.int32(settings[Setting.OUT_EPOLL])
    count = EVENTS_MAX
    while count == EVENTS_MAX:
        count = epoll_wait(epoll, events, EVENTS_MAX, np.int32(0))
        for index in range(count):
            login = load_u64(events + index * EPOLL_EVENT_BYTES + EPOLL_DATA_OFFSET)
            slot = slot_of(connections, login)
            if connections.outs[(slot << LINE_SHIFT) + LOGIN] == login:
                remove(connections.blocked, slot)


@kernel
def flush(connections):
    """Send what waits as far as sockets take it, and see ended connections off.

    `deliver` ends with it; when there is nothing to deliver, call it in every idle round.
    """
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
    """Whether every report was sent and every ended connection seen off, the ring being empty."""
    seen = load_acquire(connections.cells, ENDINGS) == connections.cells[ENDINGS_SEEN]
    return seen and empty(connections.waiting) and empty(connections.leaving)
