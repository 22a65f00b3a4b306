"""A file into the ring: every record once, in order, as far as there is room and leave."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchbox import ring
from matchbox.constants import CommandType
from matchbox.decode import feed
from matchbox.errors import BadInput
from matchbox.generate import session
from matchbox.jit import kernel

U = np.uint64
RECORDS = session(200, seed=31)


@kernel(entry=True)
def step(source, to, limit):
    return feed.feed_step(source, to, limit)


@kernel(entry=True)
def take(from_ring, wanted):
    next, count = ring.available(from_ring, wanted)
    ring.release(from_ring, next + count)
    return next, count


def taken(from_ring: ring.Ring, wanted: int) -> bytes:
    """What the consumer sees; it may be read here, because nobody else writes meanwhile."""
    next, count = take(from_ring, U(wanted))
    slots = (np.arange(int(next), int(next + count)) % (from_ring.slots.size // 8)).astype(int)
    return from_ring.slots.reshape(-1, 8)[slots].tobytes()


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=40))
def test_any_pace_of_both_sides(paces: list[tuple[int, int]]) -> None:
    source, to = feed.source(RECORDS), ring.allocate(16)
    received, sent = b"", 0
    for limit, wanted in paces:
        count = int(step(source, to, U(limit)))
        assert count <= min(limit, 16)
        sent += count
        assert feed.fed(source) == sent
        received += taken(to, wanted)
    while rest := taken(to, 16):
        received += rest
    assert received == RECORDS[:sent].tobytes()


def test_ends_with_the_file() -> None:
    source, to = feed.source(RECORDS[:5]), ring.allocate(16)
    assert step(source, to, U(512)) == 5
    assert step(source, to, U(512)) == 0
    assert feed.fed(source) == 5


def test_goes_as_far_as_it_is_allowed() -> None:
    source, to = feed.source(RECORDS), ring.allocate(64)
    for allowed, expected in ((0, 0), (3, 3), (3, 0), (10, 7)):
        feed.allow(source, allowed)
        assert step(source, to, U(512)) == expected


def test_refuses_what_may_not_be_in_the_log() -> None:
    records = RECORDS.copy()
    records["type"][7] = CommandType.LINK
    with pytest.raises(BadInput, match="record 7: type 66: expected"):
        feed.source(records)
