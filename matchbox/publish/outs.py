"""Out buffers: what waits to be sent to each client. Kernels, on the matcher's thread.

A buffer is circular and a whole number of reports long; it starts again at its first byte whenever
it runs empty, so that its hot part is small. It is in the set `waiting` while it holds something,
and in `blocked` while its socket takes no more; an event tells when that is over (own.py).

    Fate.LIVE -> LEAVING   the client's last report is in the buffer
              -> GONE      all is sent, or the connection broke, or the client was too slow

Nothing here blocks, and no signal is raised by a socket that is gone.
"""

import numpy as np

from matchbox.atomics import U, load_acquire, store_release, store_u64
from matchbox.bitset import add, remove
from matchbox.connections import (
    BACKLOG,
    CAUSE,
    DESCRIPTOR,
    DROPPED,
    FATE,
    FILL,
    LINE_SHIFT,
    LOGIN,
    OPENED,
    READ,
    WRITE,
    Ending,
    Fate,
    OwnCounter,
    Setting,
)
from matchbox.jit import kernel
from matchbox.libc import (
    EAGAIN,
    EINTR,
    ENOBUFS,
    MSG_DONTWAIT,
    MSG_NOSIGNAL,
    errno,
    send,
    shutdown,
)
from matchbox.schema import REPORT_BYTES

SEND_FLAGS = MSG_DONTWAIT | MSG_NOSIGNAL
SHUT_BOTH = 2


@kernel
def take_over(connections, slot, login):
    """Make the connection in `slot` known to the matcher. False if `login` is of the past."""
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
    """Forget what waits, and send nothing more."""
    outs, at = connections.outs, slot << LINE_SHIFT
    connections.own_counters[OwnCounter.DISCARDED_BYTES] += outs[at + FILL]
    outs[at + FILL] = U(0)
    outs[at + FATE] = U(Fate.GONE)
    remove(connections.waiting, slot)
    remove(connections.blocked, slot)
    store_release(connections.progress, at + BACKLOG, U(0))


@kernel
def drop(connections, slot, cause):
    """Part with a client at once. The shut socket wakes the decoder, which will close it."""
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
    buffer = settings[Setting.OUT_BUFFERS] + np.int64(slot * size)
    descriptor = np.int32(outs[at + DESCRIPTOR])
    while outs[at + FILL] != U(0):
        read = outs[at + READ]
        span = min(outs[at + FILL], size - read)
        sent = send(descriptor, buffer + np.int64(read), np.int64(span), SEND_FLAGS)
        counters[OwnCounter.SENDS] += U(1)
        if sent < 0:
            why = errno()
            if why == U(EINTR):
                continue
            if why == U(EAGAIN):
                add(connections.blocked, slot)
                counters[OwnCounter.BLOCKED] += U(1)
            elif why != U(ENOBUFS):  # of which no event tells the end: the next flush tries again
                drop(connections, slot, U(Ending.LOST))
            return
        counters[OwnCounter.BYTES] += U(sent)
        outs[at + READ] = U(0) if read + U(sent) == size else read + U(sent)
        outs[at + FILL] -= U(sent)
    outs[at + READ] = U(0)
    outs[at + WRITE] = U(0)
    remove(connections.blocked, slot)


@kernel
def has_room(connections, slot):
    """Whether one more report fits."""
    fill = connections.outs[(slot << LINE_SHIFT) + FILL]
    return fill + U(REPORT_BYTES) <= U(connections.settings[Setting.OUT_BYTES])


@kernel
def make_room(connections, slot):
    """No report fits: try to send; where that does not help the client is too slow to stay."""
    at = slot << LINE_SHIFT
    send_waiting(connections, slot)
    if connections.outs[at + FATE] != U(Fate.GONE) and not has_room(connections, slot):
        drop(connections, slot, U(Ending.SLOW))
    return connections.outs[at + FATE] != U(Fate.GONE)


@kernel
def put(connections, slot, w0, w1, w2, w3, w4, w5):
    """Copy a report into a connection's buffer, which has room."""
    settings, outs = connections.settings, connections.outs
    at = slot << LINE_SHIFT
    size = U(settings[Setting.OUT_BYTES])
    write = outs[at + WRITE]
    place = settings[Setting.OUT_BUFFERS] + np.int64(slot * size + write)
    store_u64(place, w0)
    store_u64(place + 8, w1)
    store_u64(place + 16, w2)
    store_u64(place + 24, w3)
    store_u64(place + 32, w4)
    store_u64(place + 40, w5)
    if outs[at + FILL] == U(0):
        add(connections.waiting, slot)
    write += U(REPORT_BYTES)
    outs[at + WRITE] = U(0) if write == size else write
    outs[at + FILL] += U(REPORT_BYTES)
    connections.own_counters[OwnCounter.REPORTS] += U(1)
