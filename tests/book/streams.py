"""Random commands for the twins: small spaces, so that every rule and every reject is met often."""

import numpy as np

from matchbox.constants import CommandType, Side
from matchbox.embedded import Engine, EngineOf, ReferenceEngine
from matchbox.schema import RECORD

EXTREME_PRICES = np.array(
    [-(2**63), 2**63 - 1, 0, -1, 1, 2**62, -(2**62), 63, 64, 4095, 4096, 2**20, -(2**40)]
)
FIRST_IDS = np.array([0, 2**32 - 150, 2**63 - 150, 2**64 - 300], np.uint64)
MIX = {
    CommandType.ENTER: 50,
    CommandType.CANCEL: 12,
    CommandType.REDUCE: 8,
    CommandType.REPLACE: 20,
    CommandType.DEFINE: 3,
    CommandType.STATE: 3,
    CommandType.TERMS: 1,
    CommandType.MASS_CANCEL: 1,
    CommandType.GENESIS: 1,
    0: 1,
}


def random_limits(rng: np.random.Generator) -> dict[str, int]:
    """Limits that are met now and then."""
    return {
        "orders": int(rng.choice([1, 4, 20, 2000])),
        "levels": int(rng.choice([1, 3, 10, 2000])),
        "instruments": 4,
    }


def random_records(rng: np.random.Generator, count: int) -> np.ndarray:
    """RECORD[count] in which most commands are valid and every way to be wrong occurs."""
    ids, prices = int(rng.choice([3, 30, 300])), int(rng.choice([2, 6, 200]))
    records = np.zeros(count, RECORD)
    mix = np.array(list(MIX.values()), float)
    records["type"] = rng.choice(list(MIX), count, p=mix / mix.sum())
    records["side"] = rng.choice([0, 1, 2], count, p=[0.49, 0.5, 0.01])
    kind_tifs, weights = [0, 16, 1, 8, 32, 128], [0.76, 0.2, 0.01, 0.01, 0.01, 0.01]
    records["kind_tif"] = rng.choice(kind_tifs, count, p=weights)
    records["flags"] = rng.choice([0, 1, 2], count, p=[0.84, 0.15, 0.01])
    records["instrument"] = rng.choice([1, 2, 0, 3, 9], count, p=[0.78, 0.1, 0.08, 0.02, 0.02])
    first_id = rng.choice(FIRST_IDS)
    records["order_id"] = rng.integers(0, ids, count).astype(np.uint64) + first_id
    records["account"] = rng.choice(3, count, p=[0.8, 0.15, 0.05])
    if rng.random() < 0.25:
        records["price"] = rng.choice(EXTREME_PRICES, count)
    else:
        records["price"] = 100 + rng.integers(0, prices, count)
    if rng.random() < 0.2:  # a few orders fill a level, and few of the other side empty it
        records["quantity"] = rng.choice([1, 2**61, 2**62 - 1, 2**62], count)
        records["side"][rng.random(count) < 0.8] = Side.BUY
    else:
        usual, odd = [1, 2, 3, 5, 8, 13], [0, -1, 2**62, 2**62 + 1]
        weights = [0.15] * 6 + [0.01, 0.01, 0.07, 0.01]
        records["quantity"] = rng.choice(usual + odd, count, p=weights)
    replace = records["type"] == CommandType.REPLACE
    new_ids = rng.integers(0, ids, count).astype(np.uint64) + first_id
    same = rng.random(count) < 0.6
    records["group"] = rng.integers(0, 3, count)
    records["login"] = rng.integers(0, 3, count)
    records["new_order_id"][replace] = np.where(same, records["order_id"], new_ids)[replace]
    records["flags"][~replace & (records["flags"] == 1)] = 0
    admin = np.isin(records["type"], [CommandType.DEFINE, CommandType.STATE])
    records["parameter"][admin] = rng.integers(0, 6, admin.sum())
    records["value"][admin] = rng.integers(-1, 20, admin.sum())
    return records


def twins(limits: dict[str, int]) -> tuple[EngineOf, EngineOf]:
    return Engine(**limits), ReferenceEngine(**limits)


def disagreement(records: np.ndarray, limits: dict[str, int], batch: int, check: bool) -> str:
    """Drive both engines; "" if they agree, else a case that can be run again."""
    found = first_difference(records, limits, batch, check)
    return case(records, limits, check, found) if found else ""


def first_difference(
    records: np.ndarray, limits: dict[str, int], batch: int, check: bool = False
) -> str:
    """Drive both engines, `batch` commands a call; "" if reports, digests and invariants (if
    `check`) are right after each."""
    compiled, readable = twins(limits)
    for start in range(0, records.size, batch):
        part = records[start : start + batch]
        got, expected = compiled.outputs(part, 0, None), readable.outputs(part, 0, None)
        if got.tobytes() != expected.tobytes():
            same = min(got.size, expected.size)
            first = next((i for i in range(same) if got[i] != expected[i]), same)
            return f"{got[first : first + 1]} != {expected[first : first + 1]}"
        if check:
            try:
                compiled.check()
                readable.check()
            except AssertionError as broken:
                return f"after {start + part.size} commands: {broken!r}"
            if compiled.digest != readable.digest:
                return f"digests differ after {start + part.size} commands"
    return "" if compiled.digest == readable.digest else "digests differ"


def case(records: np.ndarray, limits: dict[str, int], check: bool, found: str) -> str:
    """A disagreement, cut down to few commands, as Python."""
    kept = list(range(records.size))
    size = len(kept) // 2
    while size:
        start = 0
        while start < len(kept):
            fewer = kept[:start] + kept[start + size :]
            if fewer and first_difference(records[fewer], limits, len(fewer), check):
                kept = fewer
            else:
                start += size
        size //= 2
    rows = records[kept].tobytes().hex()
    return (
        f"{found}\n{records[kept]}\nimport numpy as np, matchbox\n"
        f"records = np.frombuffer(bytes.fromhex({rows!r}), matchbox.RECORD)\n"
        f"for engine in (matchbox.Engine(**{limits}), matchbox.ReferenceEngine(**{limits})):\n"
        "    print(engine.submit(records), engine.digest, engine.check())"
    )
