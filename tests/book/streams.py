"""Random commands for the twins: small spaces, so that every rule and every reject is met often."""

import numpy as np

from matchbox.constants import CommandType
from matchbox.embedded import Engine, EngineOf, ReferenceEngine
from matchbox.schema import RECORD

EXTREME_PRICES = np.array(
    [-(2**63), 2**63 - 1, 0, -1, 1, 2**62, -(2**62), 63, 64, 4095, 4096, 2**20, -(2**40)]
)
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
    weights = np.array(list(MIX.values()), float)
    records["type"] = rng.choice(list(MIX), count, p=weights / weights.sum())
    records["side"] = rng.choice([0, 1, 2], count, p=[0.49, 0.5, 0.01])
    records["kind_tif"] = rng.choice([0, 16, 1, 32], count, p=[0.78, 0.2, 0.01, 0.01])
    records["flags"] = rng.choice([0, 1, 2], count, p=[0.93, 0.06, 0.01])
    records["instrument"] = rng.choice([1, 2, 0, 3, 9], count, p=[0.78, 0.1, 0.08, 0.02, 0.02])
    records["order_id"] = rng.integers(0, ids, count)
    records["account"] = rng.choice(3, count, p=[0.8, 0.15, 0.05])
    if rng.random() < 0.25:
        records["price"] = rng.choice(EXTREME_PRICES, count)
    else:
        records["price"] = 100 + rng.integers(0, prices, count)
    records["quantity"] = rng.choice(
        [1, 2, 3, 5, 8, 13, 0, -1, 2**62, 2**62 + 1], count, p=[0.15] * 6 + [0.01, 0.01, 0.07, 0.01]
    )
    replace = records["type"] == CommandType.REPLACE
    new_ids = rng.integers(0, ids, count)
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
    compiled, readable = twins(limits)
    for start in range(0, records.size, batch):
        part = records[start : start + batch]
        got, expected = compiled.outputs(part, 0, None), readable.outputs(part, 0, None)
        if got.tobytes() != expected.tobytes():
            first = next(
                (
                    i
                    for i, pair in enumerate(zip(got, expected, strict=False))
                    if pair[0] != pair[1]
                ),
                min(got.size, expected.size),
            )
            return case(
                records[: start + batch],
                limits,
                f"{got[first : first + 1]} != {expected[first : first + 1]}",
            )
        if check:
            compiled.check()
            readable.check()
    if compiled.digest != readable.digest:
        return case(records, limits, "digests differ")
    return ""


def case(records: np.ndarray, limits: dict[str, int], what: str) -> str:
    """A disagreement, cut down to few commands, as Python."""
    kept = list(range(records.size))
    size = len(kept) // 2
    while size:
        for start in range(0, len(kept), size):
            fewer = kept[:start] + kept[start + size :]
            if fewer and differs(records[fewer], limits):
                kept = fewer
                break
        else:
            size //= 2
    rows = records[kept].tobytes().hex()
    return (
        f"{what}\n{records[kept]}\nimport numpy as np, matchbox\n"
        f"records = np.frombuffer(bytes.fromhex({rows!r}), matchbox.RECORD)\n"
        f"for engine in (matchbox.Engine(**{limits}), matchbox.ReferenceEngine(**{limits})):\n"
        "    print(engine.submit(records), engine.digest)"
    )


def differs(records: np.ndarray, limits: dict[str, int]) -> bool:
    compiled, readable = twins(limits)
    same = (
        compiled.outputs(records, 0, None).tobytes() == readable.outputs(records, 0, None).tobytes()
    )
    return not same or compiled.digest != readable.digest
