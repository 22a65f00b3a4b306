"""LOBSTER rows: exact numbers, and errors that name the line."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchbox.decode import lobster
from matchbox.decode.lobster import DAY_NS, Event, Rows
from matchbox.errors import BadInput

ROW = "34200.004241176,1,16113575,18,5853300,1"
NAME = "AAPL_2012-06-21_34200000_37800000_message_50.csv"
MIDNIGHT = 15_512 * DAY_NS  # 2012-06-21


def decode(text: str, name: str = "m.csv", midnight: int = 0) -> Rows:
    return lobster.decode(np.frombuffer(text.encode(), np.uint8), name, midnight)


def test_a_row() -> None:
    rows = decode(ROW, midnight=MIDNIGHT)
    assert [column.tolist() for column in rows] == [
        [MIDNIGHT + 34_200_004_241_176],
        [Event.SUBMIT],
        [16113575],
        [18],
        [5853300],
        [1],
    ]
    assert rows.time_ns.dtype == np.uint64


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0", 0),
        ("36023", 36_023_000_000_000),
        ("34200.5", 34_200_500_000_000),
        ("34200.000000001", 34_200_000_000_001),
        ("34200.0000000019", 34_200_000_000_001),
        ("86399.999999999999999", 86_399_999_999_999),
        ("007.10", 7_100_000_000),
    ],
)
def test_times_are_exact(text: str, ns: int) -> None:
    assert decode(f"{text},1,1,1,1,1").time_ns.tolist() == [ns]


@given(
    st.lists(
        st.tuples(
            st.decimals(0, 86_400, allow_nan=False, places=9),
            st.sampled_from([1, 2, 3, 4]),
            st.integers(0, 10**18 - 1),
            st.integers(1, 10**18 - 1),
            st.integers(-(10**18) + 1, 10**18 - 1),
            st.sampled_from([1, -1]),
        ),
        min_size=1,
    ),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "\n", "\r\n\n"]),
)
def test_numbers_are_what_python_reads(
    values: list[tuple[Decimal, int, int, int, int, int]], line_break: str, end: str
) -> None:
    values.sort(key=lambda row: row[0])
    text = line_break.join(",".join(map(str, (f"{row[0]:f}", *row[1:]))) for row in values)
    rows = decode(text + end)
    assert rows.time_ns.tolist() == [int(row[0] * 10**9) for row in values]
    for column, expected in zip(rows[1:], list(zip(*values, strict=True))[1:], strict=True):
        assert column.tolist() == list(expected)


@pytest.mark.parametrize("size", range(1, 2 * len(ROW) + 4))
def test_blocks_of_any_size_give_the_same(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    text = "\n".join([ROW, ROW.replace("18", "1"), ROW])
    whole = decode(text)
    monkeypatch.setattr(lobster, "BLOCK_BYTES", size)
    for column, expected in zip(decode(text), whole, strict=True):
        assert column.tolist() == expected.tolist()


def test_time_never_goes_back() -> None:
    rows = decode("2,1,1,1,1,1\n1.5,1,2,1,1,1\n3,1,3,1,1,1")
    assert rows.time_ns.tolist() == [2 * 10**9, 2 * 10**9, 3 * 10**9]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("", "expected 6 fields, not 1"),
        ("34200.1,1,5,5,5", "expected 6 fields, not 5"),
        (ROW + ",", "expected 6 fields, not 7"),
        (ROW.replace("34200.004241176", "time"), "time: expected seconds after midnight like"),
        (ROW.replace("34200.004241176", "-1.5"), "time: expected seconds"),
        (ROW.replace("34200.004241176", "1.-5"), "time: expected seconds"),
        (ROW.replace("34200.004241176", "1.5.5"), "time: expected seconds"),
        (ROW.replace("34200.004241176", "1."), "time: expected seconds"),
        (ROW.replace("34200.004241176", ".5"), "time: expected seconds"),
        (ROW.replace("34200.004241176", "1e3"), "time: expected seconds"),
        (ROW.replace("34200.004241176", "1.123456789x"), "time: expected seconds"),
        (ROW.replace("34200.004241176", "1" * 10), "time: expected seconds"),
        (ROW.replace(",1,", ",0,", 1), "type: expected 1 to 7"),
        (ROW.replace(",1,", ",8,", 1), "type: expected 1 to 7"),
        (ROW.replace(",1,", ",257,", 1), "type: expected 1 to 7"),
        (ROW.replace("16113575", "-1"), "order id: expected an integer from 0"),
        (ROW.replace("16113575", "9" * 19), "order id: expected an integer from 0"),
        (ROW.replace("16113575", "1 2"), "order id: expected an integer from 0"),
        (ROW.replace(",18,", ",0,"), "size: expected an integer from 1"),
        (ROW.replace(",18,", ",-5,"), "size: expected an integer from 1"),
        (ROW.replace("5853300", "58533.00"), "price: expected an integer"),
        (ROW.replace("5853300", "-"), "price: expected an integer"),
        (ROW.replace("5853300", ""), "price: expected an integer"),
        (ROW[:-1] + "0", "direction: expected 1 or -1"),
        (ROW[:-1] + "257", "direction: expected 1 or -1"),
        ("36023,7,0,0,2,-1", "price: expected -1, 0 or 1 in a halt"),
        (ROW[:-1] + "1\0", "direction: expected 1 or -1"),
        (ROW[:-1] + "é", "direction: expected 1 or -1"),
    ],
)
def test_a_bad_row_is_named(monkeypatch: pytest.MonkeyPatch, row: str, told: str) -> None:
    for block_bytes in (10, 1 << 20):
        monkeypatch.setattr(lobster, "BLOCK_BYTES", block_bytes)
        with pytest.raises(BadInput, match=f"^m.csv:3: {told}"):
            decode("\n".join([ROW, ROW, row, ROW, "", "1"]))


def test_hidden_executions_crosses_and_halts_need_no_order() -> None:
    rows = decode("1,5,0,3,100,1\n2,6,-0,0,0,0\n3,7,0,0,-1,-1\n4,7,0,0,1,-1")
    assert rows.type.tolist() == [5, 6, 7, 7]


@pytest.mark.parametrize("text", ["", "\n", "\r\n\r\n"])
def test_no_rows(text: str) -> None:
    with pytest.raises(BadInput, match=r"^m.csv: has no rows"):
        decode(text)


def test_the_day_is_in_the_name() -> None:
    assert lobster.midnight_ns(f"/data/2001-01-01/{NAME}") == MIDNIGHT
    assert lobster.midnight_ns(NAME, "1970-01-02") == DAY_NS
    assert lobster.midnight_ns("messages.csv") == 0


@pytest.mark.parametrize("date", ["2012-13-01", "21.6.2012", "2012-6-1", "1969-12-31"])
def test_a_day_that_is_none(date: str) -> None:
    with pytest.raises(BadInput, match=f"^m.csv: date .*{date}.*: expected"):
        lobster.midnight_ns("m.csv", date)


def test_the_real_file(shared_data: Callable[[str], Path]) -> None:
    path = shared_data(f"lobster/{NAME}")
    rows = lobster.read(path)
    lines = [line.split(",") for line in path.read_text().split()]
    times = [MIDNIGHT + int(Decimal(line[0]) * 10**9) for line in lines]
    assert rows.time_ns.tolist() == times
    for place in range(1, 6):
        assert rows[place].tolist() == [int(line[place]) for line in lines]
