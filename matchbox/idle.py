"""What a thread does when a round of its steps found no work.

    spin      burn the core: lowest latency, 100 % CPU
    yield     offer the core to others after each empty round
    backoff   spin for 20 us, yield 20 times, then park until something arrives or 10 ms have passed

Parking is the caller's: it blocks where its work arrives from, in `epoll_wait` or on the matcher's
eventfd (`engine.run`). Measured on two shared cores, `backoff` idles at about 1 % CPU and costs a
busy engine nothing, so it is the default.
"""

import numpy as np

from matchbox.atomics import U, pause
from matchbox.jit import kernel
from matchbox.libc import sched_yield

STRATEGIES = ("spin", "yield", "backoff")
SPIN, YIELD, BACKOFF = (U(code) for code in range(3))

SPIN_NS = 20_000
YIELDS = U(20)
PARK_MS = 10

SINCE, YIELDED, TIMESPEC = U(0), U(1), U(2)
WORDS = 8


def allocate() -> np.ndarray:
    """One thread's idle state, u64[8]: when the quiet began (ns), yields since then, address of
    its [4], [5]."""
    state = np.zeros(WORDS, np.uint64)
    state[int(TIMESPEC)] = state[4:].ctypes.data
    return state


@kernel
def timespec_of(state):
    """Address of this thread's 16 bytes of scratch for the clock."""
    return np.int64(state[TIMESPEC])


@kernel
def busy(state):
    """A round found work."""
    state[SINCE] = U(0)
    state[YIELDED] = U(0)


@kernel
def idle(state, strategy, now_ns):
    """A round found none: wait a little. Returns for how many ms the caller may park, 0 for not at
    all."""
    if strategy == SPIN:
        pause()
        return 0
    if strategy == YIELD:
        sched_yield()
        return 0
    if state[SINCE] == U(0):
        state[SINCE] = U(now_ns)
    if U(now_ns) - state[SINCE] < U(SPIN_NS):
        pause()
        return 0
    if state[YIELDED] < YIELDS:
        state[YIELDED] += U(1)
        sched_yield()
        return 0
    return PARK_MS
