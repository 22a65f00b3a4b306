"""Whole streams of the public benchmarks: the published hash of their canonical reports through
the compiled book, the same bytes through the readable one as far as it has the time to go."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from matchbox.canonical import sha256
from matchbox.constants import Kind
from matchbox.decode import workload
from matchbox.embedded import Engine
from tests.book.streams import first_difference

PREFIX = 20_000
LIMITS = {"orders": 1 << 20, "levels": 1 << 17, "instruments": 1}

PUBLISHED = {
    "mix63_s7": (622_996, "4c5200e50c32bc26462f56342898517164a0e2675d96b8d099d42631f211f25f"),
    "cancel45_s7": (198_425, "86cd9d2f9f6a47f60cfb642b715b4ee7e120f43b15c9a561417e5700affc1684"),
    "orders_normal_s23": (
        62_474,
        "e9b2e3926854410b01a035aeb25dd05f1e597c233be8263de9eb49b6713d367e",
    ),
    "orders_flash-crash_s23": (
        70_178,
        "cff8d3f94b709fc64a8b2058a6ca4fb6920364904796e46906895e362d2bb16b",
    ),
    "ferrox": (638_451, "b4dd24f6d59648e421ed72140d14bdbc9be5713f7b8d9fa57b5ff59dd995b585"),
}
"""Trades and the SHA-256 of the lines."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_reports(name: str, shared_data: Callable[[str], Path]) -> None:
    records = stream(name, shared_data)
    outputs = Engine(**LIMITS).outputs(records, 0, None)
    trades, digest = PUBLISHED[name]
    assert int((outputs["kind"] == Kind.EXECUTED).sum()) == trades
    assert sha256(outputs, records["type"]) == digest


@pytest.mark.parametrize("name", PUBLISHED)
def test_twins_on_a_prefix(name: str, shared_data: Callable[[str], Path]) -> None:
    records = workload.ferrox(PREFIX // 2).records if name == "ferrox" else None
    if records is None:
        records = stream(name, shared_data)[:PREFIX]
    assert not first_difference(records, LIMITS, batch=PREFIX)


def stream(name: str, shared_data: Callable[[str], Path]) -> np.ndarray:
    if name == "ferrox":
        return workload.ferrox().records
    return workload.read(shared_data(f"workloads/{name}.bin.zst")).records
