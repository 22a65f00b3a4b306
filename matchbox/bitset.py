"""Sets of slots as bits: slot `s` is bit `s & 63` of word `s >> 6`. Kernels.

What a step has to look at (connections that can be read, that have reports waiting) is a set, so an
idle connection costs nothing, and a full table a few words. A set belongs to one thread.
"""

import numpy as np

from matchbox.atomics import U, trailing_zeros
from matchbox.jit import kernel
from matchbox.memory import sparse


def allocate(capacity: int) -> np.ndarray:
    """An empty set of slots below `capacity`, u64[ceil(capacity / 64)], on lines of its own."""
    return sparse(-(-capacity // 64), np.uint64)


@kernel
def add(members, slot):
    members[slot >> U(6)] |= U(1) << (slot & U(63))


@kernel
def remove(members, slot):
    members[slot >> U(6)] &= ~(U(1) << (slot & U(63)))


@kernel
def contains(members, slot):
    return (members[slot >> U(6)] >> (slot & U(63))) & U(1) != U(0)


@kernel
def beyond(members):
    """What `following` returns when there is none: larger than any slot."""
    return U(members.size) << U(6)


@kernel
def following(members, slot):
    """The first member that is `slot` or larger."""
    word = slot >> U(6)
    if word >= U(members.size):
        return beyond(members)
    rest = members[word] >> (slot & U(63))
    if rest != U(0):
        return slot + trailing_zeros(rest)
    word += U(1)
    while word < U(members.size):
        if members[word] != U(0):
            return (word << U(6)) + trailing_zeros(members[word])
        word += U(1)
    return beyond(members)


@kernel
def empty(members):
    return following(members, U(0)) == beyond(members)
