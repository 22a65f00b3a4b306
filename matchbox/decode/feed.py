"""A file as a source of commands: its records into the ring, with the times they have. Kernels."""

from typing import NamedTuple

import numpy as np

from matchbox.atomics import U, load_acquire, store_release
from matchbox.constants import CommandType
from matchbox.errors import BadInput
from matchbox.jit import kernel
from matchbox.ring import claim, mask_of, publish

POSITION, COUNT = U(0), U(1)
TYPES = f"a command's, {CommandType.ENTER:d} to {CommandType.STATE:d}"


class Source(NamedTuple):
    words: np.ndarray  # u64: records, eight words each
    cells: np.ndarray  # u64[8]: records fed so far (the feeder's, read by anyone); how many may be


def source(records: np.ndarray) -> Source:
    """RECORD[n], as `files.read` gives them, as a source. They are not copied.

    Raises BadInput for a type that no client may send: the log holds known types only.
    """
    foreign = (records["type"] < CommandType.ENTER) | (records["type"] > CommandType.STATE)
    if foreign.any():
        first = int(np.argmax(foreign))
        raise BadInput(f"record {first}: type {records['type'][first]}: expected {TYPES}")
    cells = np.zeros(8, np.uint64)
    cells[int(COUNT)] = records.size
    return Source(records.view(np.uint64).reshape(-1), cells)


def allow(from_source: Source, count: int) -> None:
    """Let the feeder go as far as record `count`; it may go to the end if nobody says otherwise."""
    from_source.cells[int(COUNT)] = count


def fed(from_source: Source) -> int:
    """Records that are in the ring or beyond."""
    return int(from_source.cells[int(POSITION)])


@kernel
def feed_step(source, ring, limit):
    """Copy at most `limit` records into the ring, as far as it has room. Returns how many."""
    words, cells, slots = source.words, source.cells, ring.slots
    position = cells[POSITION]
    next, count = claim(ring, min(limit, load_acquire(cells, COUNT) - position))
    if count == U(0):
        return count
    mask = mask_of(ring)
    for i in range(count):
        at, to = (position + U(i)) << U(3), ((next + U(i)) & mask) << U(3)
        for word in range(8):
            slots[to + U(word)] = words[at + U(word)]
    store_release(cells, POSITION, position + count)
    publish(ring, next + count)
    return count
