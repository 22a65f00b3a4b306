"""The ring between two threads: every record once, in order, whole, whatever its size."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchbox import ring
from matchbox.atomics import U, pause
from matchbox.jit import kernel
from matchbox.libc import sched_yield
from matchbox.memory import address_of
from matchbox.ring import CONSUMER, CONSUMER_NEXT, PRODUCER, PRODUCER_NEXT, Ring

SLOT_WORDS = 8


@kernel(entry=True)
def claim(target, wanted):
    return ring.claim(target, wanted)


@kernel(entry=True)
def publish(target, position):
    ring.publish(target, position)


@kernel(entry=True)
def available(target, wanted):
    return ring.available(target, wanted)


@kernel(entry=True)
def release(target, position):
    ring.release(target, position)


@kernel(entry=True)
def word_at(target, position):
    return ring.word_at(target, position)


@kernel(entry=True)
def produce(target, last, batch):
    """Publish records up to position `last`, each of them eight times its position."""
    position = U(0)
    while position < last:
        first, count = ring.claim(target, min(batch, last - position))
        if count == U(0):
            sched_yield()
            continue
        for offset in range(count):
            at = ring.word_at(target, first + U(offset))
            for word in range(U(8)):
                target.slots[at + U(word)] = first + U(offset)
        position = first + count
        ring.publish(target, position)


@kernel(entry=True)
def consume(target, last, batch, rounds):
    """Take records up to position `last`. Returns how many words were not as published."""
    wrong, position = U(0), U(0)
    while position < last:
        first, count = ring.available(target, batch)
        if count == U(0):
            pause()
            sched_yield()
            continue
        rounds[0] += U(1)
        for offset in range(count):
            at = ring.word_at(target, first + U(offset))
            for word in range(U(8)):
                if target.slots[at + U(word)] != position:
                    wrong += U(1)
            position += U(1)
        ring.release(target, position)
    return wrong


@pytest.mark.parametrize("count", [2, 4, 64, 1 << 14])
@pytest.mark.parametrize(("produced", "consumed"), [(1, 1), (1, 64), (64, 1), (7, 5), (512, 512)])
def test_every_record_once_and_in_order(count: int, produced: int, consumed: int) -> None:
    """Between two threads, many times around."""
    shared, last = ring.allocate(count), U(20_000 if count < 64 else 200_000)
    rounds = np.zeros(1, np.uint64)
    wrong: list[int] = []
    # Compiled before the threads start, so that they do run at the same time.
    produce(shared, U(0), U(1))
    consume(shared, U(0), U(1), rounds)
    consumer = threading.Thread(
        target=lambda: wrong.append(consume(shared, last, U(consumed), rounds))
    )
    consumer.start()
    produce(shared, last, U(produced))
    consumer.join()
    assert wrong == [0]
    assert shared.cursors[int(PRODUCER)] == shared.cursors[int(CONSUMER)] == last
    assert rounds[0] >= last // min(count, consumed)


def test_a_full_ring_has_no_room() -> None:
    small = ring.allocate(4)
    assert claim(small, U(100)) == (0, 4)
    publish(small, U(3))
    assert claim(small, U(100)) == (3, 1)
    publish(small, U(4))
    assert claim(small, U(1)) == (4, 0)
    assert available(small, U(2)) == (0, 2)
    release(small, U(1))
    assert claim(small, U(9)) == (4, 1)


def test_an_empty_ring_has_nothing() -> None:
    small = ring.allocate(2)
    assert available(small, U(9)) == (0, 0)
    claim(small, U(2))
    assert available(small, U(9)) == (0, 0), "claimed is not published"
    publish(small, U(1))
    assert available(small, U(9)) == (0, 1)


def test_a_record_has_one_cache_line() -> None:
    shared = ring.allocate(8)
    assert address_of(shared.slots) % 64 == 0
    assert [word_at(shared, U(position)) for position in (0, 1, 7, 8, 9)] == [0, 8, 56, 0, 8]


@pytest.mark.parametrize("count", [-4, 0, 1, 3, 100])
def test_count_must_be_a_power_of_two(count: int) -> None:
    with pytest.raises(ValueError, match="power of two"):
        ring.allocate(count)


def start_at(position: int, count: int) -> Ring:
    """A ring that has been in use for long."""
    used = ring.allocate(count)
    for cursor in (PRODUCER, CONSUMER, PRODUCER_NEXT, CONSUMER_NEXT):
        used.cursors[int(cursor)] = position
        used.cursors[int(cursor) + 1] = position
    return used


@given(
    st.sampled_from([2, 4, 8]),
    st.integers(0, 1 << 62),
    st.lists(st.tuples(st.booleans(), st.integers(1, 10), st.integers(0, 10)), max_size=60),
)
def test_cursors_as_in_a_queue(count: int, start: int, steps: list[tuple[bool, int, int]]) -> None:
    """Against a plain model: what is free, what is published, what is neither."""
    shared = start_at(start, count)
    published = released = start
    for producing, wanted, used in steps:
        if producing:
            position, free = claim(shared, U(wanted))
            room = released + count - published
            assert position == published
            assert free <= min(wanted, room)
            assert (free == 0) == (room == 0), "the other cursor is looked at when none are left"
            published += min(used, free)
            publish(shared, U(published))
        else:
            position, ready = available(shared, U(wanted))
            waiting = published - released
            assert position == released
            assert ready <= min(wanted, waiting)
            assert (ready == 0) == (waiting == 0)
            released += min(used, ready)
            release(shared, U(released))
        assert released <= published <= released + count
