"""The compiled book against the readable one: the same report bytes, the same digest, for any
commands.

Commands are drawn by numpy in the long walk, by hypothesis with more extremes in the short one.
What fails is printed as the least case that still does, to be run as it stands.
"""

import os

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from matchbox.constants import QUANTITY_MAX, CommandType, Reason
from matchbox.embedded import ReferenceEngine
from matchbox.schema import COMMAND_BYTES, RECORD, RECORD_BYTES, joined
from tests.book.streams import disagreement, random_limits, random_records, twins

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


def mostly(*usual: int, now_and_then: tuple[int, ...] = ()) -> st.SearchStrategy[int]:
    """The usual values ten times as often; the first is the simplest."""
    return st.sampled_from([*usual * (10 * len(now_and_then) // len(usual) + 1), *now_and_then])


U32_MAX, U64_MAX, I64_MAX, I64_MIN = 2**32 - 1, 2**64 - 1, 2**63 - 1, -(2**63)
IDS = mostly(1, 2, 3, 4, 5, now_and_then=(0, 2**63, U64_MAX))
QUANTITIES = mostly(1, 2, 5, QUANTITY_MAX, now_and_then=(0, -1, QUANTITY_MAX + 1, I64_MAX, I64_MIN))
ENTER = st.fixed_dictionaries(
    {
        "type": st.just(CommandType.ENTER),
        "side": mostly(0, 1, now_and_then=(2, 255)),
        "kind_tif": mostly(0, 0, 16, now_and_then=(1, 8, 32, 128)),
        "flags": mostly(0, now_and_then=(1, 255)),
        "instrument": mostly(1, now_and_then=(0, 2, U32_MAX)),
        "account": mostly(0, now_and_then=(1, U32_MAX)),
        "order_id": IDS,
        "price": mostly(1, 2, 3, now_and_then=(63, 64, -1, I64_MAX, I64_MIN)),
        "quantity": QUANTITIES,
        "group": st.integers(0, U32_MAX),
        "login": st.integers(0, U32_MAX),
    }
)
CHANGE = st.fixed_dictionaries(
    {
        "type": st.sampled_from([CommandType.CANCEL, CommandType.REDUCE, CommandType.REPLACE]),
        "flags": mostly(0, 0, 1, now_and_then=(2, 255)),
        "instrument": mostly(0, 1, now_and_then=(2, U32_MAX)),
        "account": mostly(0, now_and_then=(1, U32_MAX)),
        "order_id": IDS,
        "price": mostly(1, 2, 3, now_and_then=(63, 64, -1, I64_MAX, I64_MIN)),
        "quantity": QUANTITIES,
        "new_order_id": IDS,
    }
)
INSTRUMENT = st.fixed_dictionaries(
    {
        "type": st.sampled_from([CommandType.STATE, CommandType.DEFINE]),
        "instrument": mostly(2, 1, now_and_then=(0, 3, U32_MAX)),
        "account": mostly(0, now_and_then=(1, U32_MAX)),
        "parameter": mostly(1, 2, 3, 4, now_and_then=(0, 5, 255)),
        "value": mostly(0, 18, now_and_then=(-1, 19, I64_MAX, I64_MIN)),
    }
)
ANY_BYTES = st.binary(min_size=COMMAND_BYTES, max_size=COMMAND_BYTES)
COMMAND = st.sampled_from([ENTER] * 12 + [CHANGE] * 8 + [INSTRUMENT] + [ANY_BYTES]).flatmap(
    lambda command: command
)
LIMITS = st.fixed_dictionaries(
    {
        "orders": st.integers(1, 8),
        "levels": st.integers(1, 5),
        "instruments": st.integers(1, 2),
    }
)


def record_of(command: dict[str, int] | bytes) -> np.ndarray:
    """RECORD[1]."""
    if isinstance(command, bytes):
        return np.frombuffer(bytes(RECORD_BYTES - COMMAND_BYTES) + command, RECORD)
    record = np.zeros(1, RECORD)
    for name, value in command.items():
        record[name] = value
    return record


# No shrinking: `disagreement` leaves out commands faster, and down to fewer.
@settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    commands=st.lists(
        COMMAND,
        min_size=20,
        max_size=60,
    ),
    limits=LIMITS,
    batch=st.integers(1, 10),
)
def test_any_commands(
    commands: list[dict[str, int] | bytes], limits: dict[str, int], batch: int
) -> None:
    records = joined(*map(record_of, commands))
    found = disagreement(records, limits, batch, check=True)
    assert not found, found


def test_reports_carry_the_low_half_of_their_command() -> None:
    records = random_records(np.random.default_rng(0), 100)
    made = []
    for engine in twins({"orders": 20, "levels": 20, "instruments": 2}):
        engine.command_sequence = 2**32 - 50
        made.append(engine.outputs(records, 0, None))
    assert made[0].tobytes() == made[1].tobytes()
    numbers = np.unique(made[0]["command"])
    assert numbers.tolist() == [*range(51), *range(2**32 - 49, 2**32)]


def test_the_walk_meets_every_reason_that_the_book_has() -> None:
    met: set[int] = set()
    for seed in range(200):
        rng = np.random.default_rng(seed)
        engine = ReferenceEngine(**random_limits(rng))
        met |= set(engine.submit(random_records(rng, 200))["reason"].tolist())
    expected = {r for r in Reason if Reason.UNKNOWN_ORDER <= r <= Reason.NOT_SUPPORTED}
    assert expected | {Reason.NONE, Reason.USER, Reason.IOC, Reason.REDUCE} <= met
