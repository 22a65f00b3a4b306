"""The compiled book against the readable one: the same report bytes, the same digest, for any
commands."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchbox.constants import Reason
from matchbox.embedded import ReferenceEngine
from tests.book.streams import disagreement, random_limits, random_records

COMMANDS = int(os.environ.get("TWINS_COMMANDS", 200_000))
"""Of the long walk, over all its parts: TWINS_COMMANDS=10000000 for a night."""

PARTS = 20
SESSION = 500


@pytest.mark.parametrize("part", range(PARTS))
def test_random_walk(part: int) -> None:
    for session in range(max(1, COMMANDS // PARTS // SESSION)):
        seed = [part, session]
        rng = np.random.default_rng(seed)
        limits, records = random_limits(rng), random_records(rng, SESSION)
        found = disagreement(records, limits, batch=25, check=rng.random() < 0.1)
        assert not found, f"seed {seed}: {found}"


@given(seed=st.integers(0, 2**32), count=st.integers(1, 60), batch=st.integers(1, 60))
def test_short_sessions_with_checks(seed: int, count: int, batch: int) -> None:
    rng = np.random.default_rng(seed)
    limits, records = random_limits(rng), random_records(rng, count)
    found = disagreement(records, limits, batch, check=True)
    assert not found, found


def test_the_walk_meets_every_reason_that_the_book_has() -> None:
    met: set[int] = set()
    for seed in range(200):
        rng = np.random.default_rng(seed)
        engine = ReferenceEngine(**random_limits(rng))
        met |= set(engine.submit(random_records(rng, 200))["reason"].tolist())
    expected = {r for r in Reason if Reason.UNKNOWN_ORDER <= r <= Reason.NOT_SUPPORTED}
    assert expected | {Reason.NONE, Reason.USER, Reason.IOC, Reason.REDUCE} <= met
