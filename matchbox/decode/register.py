"""How an accepted connection enters the data plane. Kernels, on control's thread.

connections.py has the steps; this is the first.
"""

import select

import numpy as np

from matchbox.atomics import U, load_acquire, store_release, store_u32, store_u64
from matchbox.connections import (
    ACCOUNT,
    CLOSED,
    DESCRIPTOR,
    EPOLL_CTL_ADD,
    LINE_SHIFT,
    LOGIN_MAX,
    OPENED,
    Setting,
)
from matchbox.jit import kernel
from matchbox.libc import EPOLL_CTL_DEL, EPOLL_DATA_OFFSET, epoll_ctl

NO_LOGIN = U(0)

IN_EVENTS = U(select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET)
OUT_EVENTS = U(select.EPOLLOUT | select.EPOLLET)


@kernel
def next_login(connections, slot):
    """What this slot's next login would be; NO_LOGIN if it is in use or has none left."""
    settings, at = connections.settings, slot << LINE_SHIFT
    opened = connections.control[at + OPENED]
    if opened == NO_LOGIN:
        return U(settings[Setting.GENERATION]) * U(settings[Setting.CAPACITY]) + slot
    login = opened + U(settings[Setting.CAPACITY])
    in_use = load_acquire(connections.endings, at + CLOSED) != opened
    return NO_LOGIN if in_use or login > U(LOGIN_MAX) else login


@kernel
def watch(connections, epoll, operation, descriptor, events, login):
    event = connections.settings[Setting.EVENT]
    store_u32(event, events)
    store_u64(event + EPOLL_DATA_OFFSET, login)
    return epoll_ctl(np.int32(epoll), operation, np.int32(descriptor), event) == 0


@kernel(entry=True)
def register(connections, descriptor, account):
    """Hand a connected socket over for good, in the lowest free slot.

    Returns its login, u64; NO_LOGIN if the table is full or the system has no room for a further
    watch: then the descriptor is still the caller's.
    """
    settings, control = connections.settings, connections.control
    slot = U(0)
    while slot < U(settings[Setting.CONNECTIONS]):
        login = next_login(connections, slot)
        if login != NO_LOGIN:
            at = slot << LINE_SHIFT
            before = control[at + OPENED]
            control[at + DESCRIPTOR] = U(descriptor)
            control[at + ACCOUNT] = U(account)
            store_release(control, at + OPENED, login)
            in_epoll, out_epoll = settings[Setting.IN_EPOLL], settings[Setting.OUT_EPOLL]
            if watch(connections, out_epoll, EPOLL_CTL_ADD, descriptor, OUT_EVENTS, login):
                if watch(connections, in_epoll, EPOLL_CTL_ADD, descriptor, IN_EVENTS, login):
                    return login
                watch(connections, out_epoll, EPOLL_CTL_DEL, descriptor, OUT_EVENTS, login)
            # The decoder will see no event of this login, so nobody has taken it over.
            control[at + OPENED] = before
            return NO_LOGIN
        slot += U(1)
    return NO_LOGIN
