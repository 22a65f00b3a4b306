"""A small random session as a file, and what the readable book makes of it."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from matchbox.constants import CommandType, Kind
from matchbox.decode import capture
from matchbox.embedded import ReferenceEngine
from matchbox.schema import RECORD


class Session(NamedTuple):
    path: Path
    records: np.ndarray  # RECORD[n]
    reports: np.ndarray  # REPORT[m]
    digest: str

    @property
    def trades(self) -> int:
        return int(np.count_nonzero(self.reports["kind"] == Kind.EXECUTED))


def records(count: int, seed: int = 1) -> np.ndarray:
    """Enters and cancels around one price, a millisecond apart."""
    random = np.random.default_rng(seed)
    made = np.zeros(count, RECORD)
    made["time_ns"] = 1_000_000 * np.arange(1, count + 1)
    made["instrument"] = 1
    made["order_id"] = np.arange(1, count + 1)
    made["type"] = CommandType.ENTER
    made["side"] = random.integers(0, 2, count)
    made["price"] = random.integers(95, 106, count)
    made["quantity"] = random.integers(1, 20, count)
    cancels = random.random(count) < 0.3
    made["type"][cancels] = CommandType.CANCEL
    made["order_id"][cancels] = random.integers(1, count, int(cancels.sum()))
    for name in ("side", "price", "quantity"):
        made[name][cancels] = 0
    return made


def write(folder: Path, count: int = 500, seed: int = 1) -> Session:
    made, path = records(count, seed), folder / "session.mbc"
    capture.write(path, made)
    engine = ReferenceEngine()
    reports = engine.submit(made)
    return Session(path, made, reports, engine.digest)
