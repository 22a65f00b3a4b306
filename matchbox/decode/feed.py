"""A file as a source of commands: its records into the ring, with the times they have. Kernels."""

from typing import NamedTuple

import numpy as np

from matchbox.atomics import U, copy_bytes, load_acquire, store_release
from matchbox.constants import CLIENT_TYPES
from matchbox.errors import BadInput
from matchbox.jit import kernel
from matchbox.ring import claim, count_of, mask_of, publish
from matchbox.schema import RECORD_BYTES

POSITION, COUNT = U(0), U(1)
RECORD_SHIFT = U(6)  # log2 of a record's bytes
assert 1 << int(RECORD_SHIFT) == RECORD_BYTES

TYPES = "one of " + ", ".join(f"{code:d} {code.name.lower()}" for code in CLIENT_TYPES)


class Source(NamedTuple):
    words: np.ndarray  # u64: records, eight words each
    cells: np.ndarray  # u64[8]: records fed so far (the feeder's, read by anyone); how many may be


def source(records: np.ndarray) -> Source:
    """RECORD[n], as `files.read` gives them, as a source. They are not copied.

    Raises BadInput for a type that no client may send: the log holds known types only.
    """
    foreign = ~np.isin(records["type"], CLIENT_TYPES)
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
def copy_records(slots, slot, words, record, count):
    """Copy `count` records of `words` from `record` on into `slots` from `slot` on."""
    target = np.int64(slots.ctypes.data) + np.int64(slot << RECORD_SHIFT)
    place = np.int64(words.ctypes.data) + np.int64(record << RECORD_SHIFT)
    copy_bytes(target, place, np.int64(count << RECORD_SHIFT))


@kernel
def feed_step(source, ring, limit):
    """Copy at most `limit` records into the ring, as far as it has room. Returns how many."""
    words, cells = source.words, source.cells
    position = cells[POSITION]
    next, count = claim(ring, min(limit, load_acquire(cells, COUNT) - position))
    if count == U(0):
        return count
    # The records are one stretch; their slots are two if the ring's end is between them.
    place = next & mask_of(ring)
    before_end = min(count, count_of(ring) - place)
    copy_records(ring.slots, place, words, position, before_end)
    copy_records(ring.slots, U(0), words, position + before_end, count - before_end)
    store_release(cells, POSITION, position + count)
    publish(ring, next + count)
    return count
