"""The C library as kernels call it: no GIL, no Python object, cached with their callers.

Pointers are i64 addresses of buffers that outlive the call. Each function returns what its manual
page says; `errno()` tells why it returned -1.
"""

import errno as codes
import platform

from numba import types
from numba.types import ExternalFunction

from matchbox.atomics import load_u32, load_u64
from matchbox.jit import kernel

_int, _uint, _word = types.int32, types.uint32, types.int64

recv = ExternalFunction("recv", _word(_int, _word, _word, _int))
send = ExternalFunction("send", _word(_int, _word, _word, _int))
sendmmsg = ExternalFunction("sendmmsg", _int(_int, _word, _uint, _int))
recvmmsg = ExternalFunction("recvmmsg", _int(_int, _word, _uint, _int, _word))
epoll_wait = ExternalFunction("epoll_wait", _int(_int, _word, _int, _int))
epoll_ctl = ExternalFunction("epoll_ctl", _int(_int, _int, _int, _word))
poll = ExternalFunction("poll", _int(_word, _word, _int))
read = ExternalFunction("read", _word(_int, _word, _word))
write = ExternalFunction("write", _word(_int, _word, _word))
setsockopt = ExternalFunction("setsockopt", _int(_int, _int, _int, _word, _uint))
shutdown = ExternalFunction("shutdown", _int(_int, _int))
close = ExternalFunction("close", _int(_int))
clock_gettime = ExternalFunction("clock_gettime", _int(_int, _word))
sched_yield = ExternalFunction("sched_yield", _int())
_errno_location = ExternalFunction("__errno_location", _word())

MSG_DONTWAIT = 0x40
MSG_NOSIGNAL = 0x4000
EPOLL_CTL_DEL = 2
POLLIN = 1
# struct epoll_event is packed on x86-64 only: u32 events, then the 8 bytes of data.
EPOLL_EVENT_BYTES = 12 if platform.machine() in ("x86_64", "AMD64") else 16
EPOLL_DATA_OFFSET = EPOLL_EVENT_BYTES - 8
EAGAIN, EINTR, ENOBUFS = codes.EAGAIN, codes.EINTR, codes.ENOBUFS
ECONNREFUSED, EMSGSIZE, EIO = codes.ECONNREFUSED, codes.EMSGSIZE, codes.EIO

CLOCK_REALTIME, CLOCK_MONOTONIC = 0, 1
TIMESPEC_BYTES = 16


@kernel
def errno():
    return load_u32(_errno_location())


@kernel
def clock_ns(clock, timespec):
    """A clock in nanoseconds, i64; `timespec` is the address of 16 bytes of scratch."""
    clock_gettime(clock, timespec)
    return types.int64(load_u64(timespec)) * 1_000_000_000 + types.int64(load_u64(timespec + 8))
