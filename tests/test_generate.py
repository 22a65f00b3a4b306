"""Made-up order flow: always the same, well formed, and like a market."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchbox.book.reference import ReferenceBook
from matchbox.constants import CommandType, Kind, Reason, Tif
from matchbox.decode import lobster, wire
from matchbox.errors import BadInput, Unavailable
from matchbox.generate import session
from matchbox.generate_lobster import lobster_rows, write_lobster
from matchbox.schema import RECORD

MANY = 20_000


def executed(records: np.ndarray) -> np.ndarray:
    """OUTPUT of a fresh book."""
    records["command_sequence"] = 1 + np.arange(records.size)
    return ReferenceBook().execute(records)


def test_the_bytes_of_a_session_never_change() -> None:
    summary = hashlib.blake2b(session(5000, 7, 3).tobytes(), digest_size=16)
    assert summary.hexdigest() == "5dc89562727984f29b58bd046d303be0"


@given(
    seed=st.integers(-(1 << 70), 1 << 70),
    sizes=st.tuples(st.integers(40, 300), st.integers(0, 300)),
)
def test_a_longer_session_begins_with_the_shorter_one(seed: int, sizes: tuple[int, int]) -> None:
    count, more = sizes
    assert (session(count + more, seed, 4)[:count] == session(count, seed, 4)).all()


def test_another_seed_is_another_session() -> None:
    assert (session(100, 1) != session(100, 2)).any()


@pytest.mark.parametrize("instruments", [1, 12])
def test_a_session_is_like_a_market(instruments: int) -> None:
    records = session(MANY, 3, instruments)
    assert records.dtype == RECORD and records.size == MANY
    assert (np.diff(records["time_ns"].astype(np.int64)) >= 0).all()
    assert set(np.unique(records["instrument"])) == set(range(1, instruments + 1))
    outputs = executed(records)
    rejected = outputs[outputs["kind"] == Kind.REJECTED]
    assert set(rejected["reason"].tolist()) <= {Reason.UNKNOWN_ORDER, Reason.NOT_REDUCED}
    assert rejected.size < MANY // 5
    assert (outputs["kind"] == Kind.EXECUTED).sum() > MANY // 20
    types = records["type"]
    for code, least in (("ENTER", 45), ("CANCEL", 20), ("REDUCE", 3), ("REPLACE", 3)):
        assert (types == CommandType[code]).sum() > MANY * least // 100, code
    assert (records["kind_tif"] == Tif.IOC << 4).sum() > MANY // 20


def test_order_ids_are_used_once() -> None:
    records = session(MANY)
    enters = records["order_id"][records["type"] == CommandType.ENTER]
    renamed = records["new_order_id"][records["type"] == CommandType.REPLACE]
    ids = np.concatenate([enters, renamed])
    assert np.unique(ids).size == ids.size


def test_a_session_fits_on_the_wire() -> None:
    records = session(1000, 5, 2)
    back = wire.decode(wire.encode(records))
    back["time_ns"] = records["time_ns"]
    assert (back == records).all()


def test_the_smallest_sessions() -> None:
    assert session(0).size == 0
    assert session(4, instruments=3)["type"].tolist() == [7, 8, 7, 8]


@pytest.mark.parametrize(
    ("count", "instruments", "text"),
    [(-1, 1, "count -1: expected 0"), (3, 3, "count 3: expected 4"), (9, 0, "instruments 0")],
)
def test_what_no_session_can_be(count: int, instruments: int, text: str) -> None:
    with pytest.raises(BadInput, match=text):
        session(count, instruments=instruments)


def test_rows_are_a_market_as_its_exchange_tells_it() -> None:
    rows = lobster_rows(MANY, 4)
    live, newest = dict[int, int](), 0
    for type, order_id, quantity in zip(
        rows.type.tolist(), rows.order_id.tolist(), rows.quantity.tolist(), strict=True
    ):
        if type == lobster.Event.SUBMIT:
            assert order_id > newest
            live[order_id], newest = quantity, order_id
        else:
            assert 0 < quantity <= live[order_id]
            live[order_id] -= quantity
            assert (type == lobster.Event.DELETE) <= (live[order_id] == 0)
            if not live[order_id]:
                del live[order_id]


def test_rows_before_the_first_one_leave_orders_behind() -> None:
    whole, late = lobster_rows(700, 4), lobster_rows(400, 4, before=300)
    for column, expected in zip(late, whole, strict=True):
        assert (column == expected[300:]).all()


def test_a_written_file_reads_as_the_same_rows(tmp_path: Path) -> None:
    rows, path = lobster_rows(500, 9), tmp_path / "XYZ_2026-01-05_message.csv"
    write_lobster(path, rows)
    for column, expected in zip(lobster.read(path), rows, strict=True):
        assert column.dtype == expected.dtype and (column == expected).all()


def test_no_rows_are_an_empty_file(tmp_path: Path) -> None:
    write_lobster(tmp_path / "empty.csv", lobster_rows(0))
    assert (tmp_path / "empty.csv").read_bytes() == b""


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="No such file or directory"):
        write_lobster(tmp_path / "nowhere" / "file.csv", lobster_rows(1))
