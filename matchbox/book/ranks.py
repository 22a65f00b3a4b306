"""Prices as ranks, and masks of 64. Kernels.

rank = price with its sign bit flipped; for bids all bits inverted as well. Smaller is better on
either side. The map is its own inverse but for the type.
"""

import numpy as np

from matchbox.atomics import U
from matchbox.jit import kernel

LOW6 = U(63)


@kernel
def flip(book):
    """All that tells price from rank: 1 << 63 for asks, its complement for bids."""
    return U(1 << 63) ^ ((book & U(1)) - U(1))


@kernel
def rank_of(book, price):
    return U(price) ^ flip(book)


@kernel
def price_of(book, rank):
    return np.int64(rank ^ flip(book))


@kernel
def bit_of(number):
    return U(1) << (number & LOW6)


@kernel
def take(counts, pool, stack):
    """Pop a free number. The pool must not be empty."""
    left = counts[pool] - U(1)
    counts[pool] = left
    return U(stack[left])


@kernel
def give(counts, pool, stack, number):
    """Push a number that is free again."""
    counts_before = counts[pool]
    stack[counts_before] = number
    counts[pool] = counts_before + U(1)
