"""A lock-free ring of 64-byte slots between one producer and one consumer.

Positions count slots since the start and never wrap; slot `position & (count - 1)` holds a record.
The producer's cursor is the first position it has not published, the consumer's the first it has
not released.

    cursors, u64[64]: four cache-line pairs (128 bytes: the prefetcher fetches lines in pairs)
      0   producer cursor            written by the producer (release), read by the consumer
      (acquire)
     16   consumer cursor            written by the consumer (release), read by the producer
     (acquire)
     32   producer's own: [32] next position, [33] last consumer cursor it saw
     48   consumer's own: [48] next position, [49] last producer cursor it saw

Invariant: consumer <= producer <= consumer + count. The producer writes slots, then publishes: the
release store orders them before the cursor. The consumer reads slots after its acquire load and
releases them only when it is done, so a slot is never written while it is read. Each side looks at
the other's cursor only when its cached copy says that there is nothing to do (Thompson et al.,
"Disruptor", 2011).
"""

from typing import NamedTuple

import numpy as np

from matchbox.atomics import CACHE_LINE_WORDS, U, load_acquire, store_release
from matchbox.jit import kernel
from matchbox.memory import huge

PRODUCER, CONSUMER = U(0), U(16)
PRODUCER_NEXT, PRODUCER_GATE = U(32), U(33)
CONSUMER_NEXT, CONSUMER_GATE = U(48), U(49)
CURSOR_WORDS = 64

SLOTS_DEFAULT = 1 << 14
WORDS_SHIFT = U(3)
assert 1 << int(WORDS_SHIFT) == CACHE_LINE_WORDS


class Ring(NamedTuple):
    slots: np.ndarray  # u64[count * 8], 64-byte aligned; count is a power of two
    cursors: np.ndarray  # u64[64], as above


def allocate(count: int = SLOTS_DEFAULT) -> Ring:
    """A ring of `count` slots (a power of two), on memory of its own, touched."""
    if count < 2 or count & (count - 1):
        raise ValueError(f"ring slots must be a power of two, not {count}")
    return Ring(
        huge(count * CACHE_LINE_WORDS, np.uint64, prefault=True), huge(CURSOR_WORDS, np.uint64)
    )


@kernel
def count_of(ring):
    return U(ring.slots.size) >> WORDS_SHIFT


@kernel
def mask_of(ring):
    return count_of(ring) - U(1)


@kernel
def word_at(ring, position):
    """Index in `ring.slots` of the first word of a position's slot."""
    return (position & mask_of(ring)) << WORDS_SHIFT


@kernel
def claim(ring, wanted):
    """Producer: the next position, and how many slots from there are free, at most `wanted`."""
    cursors = ring.cursors
    next = cursors[PRODUCER_NEXT]
    free = cursors[PRODUCER_GATE] + count_of(ring) - next
    if free == U(0):
        cursors[PRODUCER_GATE] = load_acquire(cursors, CONSUMER)
        free = cursors[PRODUCER_GATE] + count_of(ring) - next
    return next, min(free, wanted)


@kernel
def publish(ring, position):
    """Producer: hand over every slot before `position`."""
    ring.cursors[PRODUCER_NEXT] = position
    store_release(ring.cursors, PRODUCER, position)


@kernel
def available(ring, wanted):
    """Consumer: the next position, and how many slots from there are published, at most
    `wanted`."""
    cursors = ring.cursors
    next = cursors[CONSUMER_NEXT]
    ready = cursors[CONSUMER_GATE] - next
    if ready == U(0):
        cursors[CONSUMER_GATE] = load_acquire(cursors, PRODUCER)
        ready = cursors[CONSUMER_GATE] - next
    return next, min(ready, wanted)


@kernel
def release(ring, position):
    """Consumer: give back every slot before `position`."""
    ring.cursors[CONSUMER_NEXT] = position
    store_release(ring.cursors, CONSUMER, position)
