"""Prices, ids and markets chosen to hurt: same reports, invariants kept, nothing leaks."""

import numpy as np
import pytest

from matchbox.book.state import FREE_GROUPS, FREE_ORDERS, FREE_PAGES, FREE_WORDS, LIMBO, LOT
from matchbox.constants import CommandType, Kind, Reason, Tif
from matchbox.embedded import Engine, ReferenceEngine
from matchbox.schema import RECORD, joined

I64 = (-(2**63), 2**63 - 1)


def enters(ids: np.ndarray, sides: np.ndarray, prices: np.ndarray, quantity: int = 1) -> np.ndarray:
    records = np.zeros(len(ids), RECORD)
    records["type"], records["instrument"], records["quantity"] = CommandType.ENTER, 1, quantity
    records["order_id"], records["side"], records["price"] = ids, sides, prices
    return records


def cancels(ids: np.ndarray) -> np.ndarray:
    records = np.zeros(len(ids), RECORD)
    records["type"], records["order_id"] = CommandType.CANCEL, ids
    return records


def agree(records: np.ndarray, **limits: int) -> Engine:
    compiled, readable = Engine(**limits), ReferenceEngine(**limits)
    got, expected = compiled.outputs(records, 0, None), readable.outputs(records, 0, None)
    assert got.tobytes() == expected.tobytes()
    assert compiled.digest == readable.digest
    compiled.check()
    return compiled


@pytest.mark.parametrize("shift", [0, 6, 12, 22, 32, 45, 57])
def test_prices_equal_modulo_powers_of_two(shift: int) -> None:
    count = 2000
    rng = np.random.default_rng(shift)
    prices = rng.integers(0, min(count, 2 ** (63 - shift)), count) << shift
    sides = rng.integers(0, 2, count)
    # Bids below zero, asks above: all of them rest.
    prices = np.where(sides == 0, -1 - prices, prices)
    ids = np.arange(count)
    agree(
        joined(enters(ids, sides, prices), cancels(rng.permutation(ids))),
        orders=4096,
        levels=4096,
        instruments=1,
    )


@pytest.mark.parametrize("shift", [0, 12, 22, 32, 46, 53])
def test_ids_equal_modulo_powers_of_two(shift: int) -> None:
    count = 2000
    rng = np.random.default_rng(shift)
    ids = np.arange(count, dtype=np.uint64) << np.uint64(shift)
    agree(
        joined(enters(ids, ids * np.uint64(0), np.full(count, 5)), cancels(rng.permutation(ids))),
        orders=4096,
        levels=16,
        instruments=1,
    )


def test_blinking_at_the_ends_of_the_price_range() -> None:
    count = 400
    ids = np.arange(count)
    prices = np.where(ids % 2 == 0, *I64)
    records = np.empty(2 * count, RECORD)
    records[0::2], records[1::2] = enters(ids, ids * 0, prices), cancels(ids)
    agree(records, orders=4, levels=4, instruments=1)


def test_a_sweep_through_a_hundred_thousand_far_levels() -> None:
    count = 100_000
    rng = np.random.default_rng(7)
    prices = np.unique(rng.integers(-(2**62), 2**62, count + 100))[:count]
    engine = Engine(orders=count + 1, levels=count, instruments=1)
    reports = engine.submit(enters(np.arange(count), np.ones(count), rng.permutation(prices)))
    assert (reports["kind"] == Kind.ACCEPTED).all()
    sweep = engine.enter(order_id=count, side="buy", price=I64[1], quantity=count)
    assert np.array_equal(sweep["price"][1:], prices) and sweep[-1]["quantity"] == 1
    assert engine.book(1) == ([], [])
    engine.check()


def test_emptied_pages_and_groups_are_given_back() -> None:
    engine = Engine(orders=16, levels=16, instruments=1)
    counts = engine.compiled.state.counts
    full = counts[: FREE_WORDS + 1].copy()
    for start in range(0, 3 * LOT, 1000):
        ids = np.arange(start, start + 1000)
        records = np.empty(2000, RECORD)
        records[0::2], records[1::2] = enters(ids, ids * 0, ids * 4096 * 7), cancels(ids)
        engine.submit(records)
    engine.check()
    assert counts[FREE_ORDERS] == full[FREE_ORDERS]
    assert full[FREE_PAGES] - counts[FREE_PAGES] <= LOT
    assert full[FREE_GROUPS] - counts[FREE_GROUPS] <= LIMBO
    assert full[FREE_WORDS] - counts[FREE_WORDS] <= 9 * LIMBO


def test_every_level_may_stand_alone() -> None:
    """Pools are sized for the worst: each live level in a page and group of its own."""
    levels = 3000
    ids = np.arange(levels)
    engine = Engine(orders=levels + 1, levels=levels, instruments=1)
    assert (engine.submit(enters(ids, ids * 0, ids << 40))["kind"] == Kind.ACCEPTED).all()
    more = engine.enter(order_id=levels, side="buy", price=-1, quantity=1)
    assert more[0]["reason"] == Reason.LEVELS_FULL
    engine.check()
    engine.submit(cancels(ids))
    assert (engine.submit(enters(ids, ids * 0, (ids << 40) + 77))["kind"] == Kind.ACCEPTED).all()
    engine.check()


def test_many_instruments() -> None:
    count, instruments = 5000, 500
    rng = np.random.default_rng(3)
    setup = np.zeros(2 * (instruments - 1), RECORD)
    setup["instrument"] = np.repeat(np.arange(2, instruments + 1), 2)
    setup["type"][0::2], setup["type"][1::2] = CommandType.DEFINE, CommandType.STATE
    setup["parameter"] = 1
    orders = enters(
        np.arange(count), rng.integers(0, 2, count), 100 + rng.integers(-3, 4, count), 5
    )
    orders["instrument"] = rng.integers(1, instruments + 1, count)
    orders["kind_tif"] = np.where(rng.random(count) < 0.2, Tif.IOC << 4, 0)
    agree(joined(setup, orders), orders=count, levels=count, instruments=instruments)
