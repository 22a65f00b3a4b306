"""Hands the datagrams of the send buffer to the kernel. Kernels.

Nothing blocks. A datagram that the kernel does not take after `RETRIES` is counted as dropped:
subscribers see a gap and can have it repaired. A refusal by a unicast receiver that is gone is
counted and otherwise ignored.
"""

import errno as codes

import numpy as np

from matchbox.atomics import U, pause
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
from matchbox.publish.state import (
    HEADER_BYTES,
    MESSAGE_BYTES,
    MESSAGE_HEADER_BYTES,
    VECTOR_WORDS,
    Cell,
    Counter,
    Mode,
    Setting,
)

RETRIES = U(32)
"""Further tries for a full send buffer, some 20 us: the engine does not wait for a network."""

SEND_FLAGS = MSG_DONTWAIT | MSG_NOSIGNAL
SOL_UDP, UDP_SEGMENT = 17, 103
EINVAL = codes.EINVAL


@kernel
def may_pass(publisher, code):
    """Whether a send that failed with this errno is worth another try.

    A full send buffer empties. A refusal is about an earlier datagram: this one was not tried.
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
    """Send bytes as one datagram, or as many under segmentation. Returns 0 or an errno."""
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
    """From here on the kernel is given datagrams. The option goes: it fails small sends as well."""
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
        # Reasons not to segment: a route's smaller MTU, checksums off, a device without them.
        if code != U(EMSGSIZE) and code != U(EINVAL) and code != U(EIO):
            drop(publisher, count, code)
            return
        give_up_segmentation(publisher, code)
    stride = HEADER_BYTES + publisher.settings[Setting.DATAGRAM_REPORTS] * MESSAGE_BYTES
    if count > U(1) and publisher.cells[Cell.MODE] == U(Mode.MMSG):
        send_many(publisher, count, size, stride)
    else:
        send_each(publisher, count, size, stride)
