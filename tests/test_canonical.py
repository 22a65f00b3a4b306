"""Canonical lines: one session with every kind of line, written out; hashes over any chunking."""

import hashlib

import numpy as np
import pytest

from matchbox import canonical
from matchbox.constants import CommandFlag, CommandType, Side, Tif
from matchbox.embedded import Engine, EngineOf, ReferenceEngine
from matchbox.errors import BadInput
from matchbox.schema import RECORD

ENTER, CANCEL, REPLACE = CommandType.ENTER, CommandType.CANCEL, CommandType.REPLACE
IOC = Tif.IOC << 4
LIMITS = {"orders": 16, "levels": 16, "instruments": 1}

# type, side, kind_tif, flags, order_id, price, quantity, new_order_id
SESSION = [
    (ENTER, Side.SELL, 0, 0, 1, 100, 5, 0),
    (ENTER, Side.SELL, 0, 0, 2, 101, 5, 0),
    (ENTER, Side.BUY, IOC, 0, 3, 101, 7, 0),
    (REPLACE, 0, 0, CommandFlag.REQUEUE, 2, 101, 3, 9),
    (ENTER, Side.BUY, 0, 0, 4, 101, 1, 0),
    (CANCEL, 0, 0, 0, 9, 0, 0, 0),
    (CANCEL, 0, 0, 0, 9, 0, 0, 0),
    (REPLACE, 0, 0, 0, 1, 50, 1, 1),
    (ENTER, Side.BUY, 0, 0, 5, 99, 4, 0),
    (REPLACE, 0, 0, 0, 5, 98, 4, 6),
    (ENTER, Side.SELL, IOC, 0, 7, 98, 6, 0),
]
LINES = """
0,0,1,1,100,5
0,1,1,2,101,5
0,2,0,3,101,7
1,2,100,5,1,3
1,2,101,2,2,3
3,3,1,9,101,3
0,4,0,4,101,1
1,4,101,1,9,4
2,5,1,9,101
4,6,9
5,7,1
0,8,0,5,99,4
3,9,0,6,98,4
0,10,1,7,98,6
1,10,98,4,6,7
2,10,1,7,98
""".split()


def session() -> np.ndarray:
    names = ("type", "side", "kind_tif", "flags", "order_id", "price", "quantity", "new_order_id")
    records = np.zeros(len(SESSION), RECORD)
    records["instrument"] = 1
    for record, row in zip(records, SESSION, strict=True):
        for name, value in zip(names, row, strict=True):
            if name != "new_order_id" or row[0] == REPLACE:  # elsewhere it lies over other fields
                record[name] = value
    return records


@pytest.mark.parametrize("engine", [Engine, ReferenceEngine])
def test_every_line(engine: type[EngineOf]) -> None:
    records = session()
    outputs = engine(**LIMITS).outputs(records, 0, None)
    assert list(canonical.lines(outputs, records["type"])) == LINES


@pytest.mark.parametrize("chunk", [1, 2, 3, len(LINES), 1 << 16])
def test_the_hash_is_of_the_joined_lines(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(canonical, "CHUNK", chunk)
    records = session()
    outputs = ReferenceEngine(**LIMITS).outputs(records, 0, None)
    expected = hashlib.sha256("\n".join(LINES).encode()).hexdigest()
    assert canonical.sha256(outputs, records["type"]) == expected


def test_nothing_has_no_lines() -> None:
    outputs, types = ReferenceEngine(**LIMITS).outputs(session()[:0], 0, None), np.zeros(0, "u1")
    assert list(canonical.lines(outputs, types)) == []
    assert canonical.sha256(outputs, types) == hashlib.sha256().hexdigest()


def test_what_has_no_line_is_named() -> None:
    records = session()[[0, 0]]
    records["type"][1] = CommandType.REDUCE
    outputs = ReferenceEngine(**LIMITS).outputs(records, 0, None)
    with pytest.raises(BadInput, match="report 2: kind 2 has no canonical line"):
        list(canonical.lines(outputs, records["type"]))
