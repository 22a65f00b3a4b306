"""LOBSTER message files as rows, and rows as commands."""

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchbox.constants import Action, CommandType, Side, Tif
from matchbox.decode import lobster
from matchbox.decode.lobster import DAY_NS, NS_PER_S, Event, Rows
from matchbox.decode.lobster_commands import UNTOLD, Session, convert
from matchbox.errors import BadInput
from matchbox.schema import RECORD

LINE = "34200.004241176,1,16113575,18,5853300,1"


def decode(text: str) -> Rows:
    return lobster.decode(np.frombuffer(text.encode(), np.uint8), "x.csv")


def converted(text: str, seed: str = "all") -> Session:
    """Of rows without times: `type,order id,size,price,direction`, parted by blanks."""
    lines = [f"{second}.5,{row}" for second, row in enumerate(text.split())]
    session = convert(decode("\n".join(lines)), seed)
    assert session.records.dtype == RECORD
    return session


def told(session: Session) -> list[tuple[int, ...]]:
    """Of each command: type, order id, quantity."""
    names = ("type", "order_id", "quantity")
    return list(zip(*(session.records[name].tolist() for name in names), strict=True))


# -- rows ----------------------------------------------------------------------------------------


def test_a_row() -> None:
    assert [column.tolist() for column in decode(LINE)] == [
        [34200 * NS_PER_S + 4241176],
        [Event.SUBMIT],
        [16113575],
        [18],
        [5853300],
        [1],
    ]


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("0", 0),
        ("34200.1", 34200 * NS_PER_S + 10**8),
        ("34200.000000001", 34200 * NS_PER_S + 1),
        ("34200.00424117672634", 34200 * NS_PER_S + 4241176),
        ("999999999.999999999", 999_999_999 * NS_PER_S + 999_999_999),
    ],
)
def test_times_are_exact(time: str, expected: int) -> None:
    assert decode(f"{time},1,2,3,4,1").time_ns.tolist() == [expected]


@given(
    st.lists(
        st.tuples(
            st.integers(1, 4),
            st.integers(0, 10**18 - 1),
            st.integers(1, 10**18 - 1),
            st.integers(-(10**18) + 1, 10**18 - 1),
            st.sampled_from([1, -1]),
        ),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from(["\n", "\r\n"]),
    st.integers(0, 2),
)
def test_integers_are_exact(rows: list[tuple[int, ...]], end: str, ends: int) -> None:
    lines = [f"{second}.25,{','.join(map(str, row))}" for second, row in enumerate(rows)]
    read = decode(end.join(lines) + end * ends)
    assert list(zip(*(column.tolist() for column in read[1:]), strict=True)) == rows
    assert read.time_ns.tolist() == [second * NS_PER_S + 250_000_000 for second in range(len(rows))]


def test_time_never_goes_back() -> None:
    read = decode("5.0,1,1,1,1,1\n4.9,1,2,1,1,1\n5.1,1,3,1,1,1")
    assert read.time_ns.tolist() == [5 * NS_PER_S, 5 * NS_PER_S, 5_100_000_000]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("34200.1,1,2,3,4", "expected 6 fields, not 5"),
        ("34200.1,1,2,3,4,1,", "expected 6 fields, not 7"),
        ("", "expected 6 fields, not 1"),
        ("noon,1,2,3,4,1", "time: expected seconds after midnight"),
        ("7.,1,2,3,4,1", "time: expected seconds after midnight"),
        ("-1.5,1,2,3,4,1", "time: expected seconds after midnight"),
        ("1.-5,1,2,3,4,1", "time: expected seconds after midnight"),
        ("1.5.5,1,2,3,4,1", "time: expected seconds after midnight"),
        ("1.000000000x,1,2,3,4,1", "time: expected seconds after midnight"),
        ("1000000000,1,2,3,4,1", "time: expected seconds after midnight"),
        ("1.5,8,2,3,4,1", "type: expected 1 to 7"),
        ("1.5,,2,3,4,1", "type: expected 1 to 7"),
        ("1.5,1,-2,3,4,1", "order id: expected an integer from 0"),
        ("1.5,1,2,0,4,1", "size: expected an integer from 1"),
        ("1.5,1,2,3.0,4,1", "size: expected an integer from 1"),
        ("1.5,1,2,3,1000000000000000000,1", "price: expected an integer"),
        ("1.5,1,2,3,--4,1", "price: expected an integer"),
        ("1.5,7,0,0,5,-1", "price: expected -1, 0 or 1 in a halt"),
        ("1.5,1,2,3,4,0", "direction: expected 1 or -1"),
        ("1.5,1,2,3,4, 1", "direction: expected 1 or -1"),
    ],
)
def test_a_bad_row_is_named_by_its_line(line: str, text: str) -> None:
    with pytest.raises(BadInput) as caught:
        decode("\n".join([LINE, LINE, line, LINE]))
    assert str(caught.value).startswith(f"x.csv:3: {text}")
    if "fields" not in text:
        assert str(caught.value).endswith(f", in {line!r}")


@pytest.mark.parametrize("text", ["", "\n", "\r\n\n"])
def test_no_rows(text: str) -> None:
    with pytest.raises(BadInput, match="x.csv: has no rows"):
        decode(text)


def test_lines_are_counted_over_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lobster, "BLOCK_BYTES", 64)
    lines = [f"{second},1,{second},3,4,1" for second in range(100)]
    assert decode("\n".join(lines)).order_id.tolist() == list(range(100))
    lines[77] = "77,1,77,x,4,1"
    with pytest.raises(BadInput, match="x.csv:78: size"):
        decode("\n".join(lines))


@pytest.mark.parametrize(
    ("name", "date", "days"),
    [
        ("AAPL_1970-01-03_1_2_message_50.csv", None, 2),
        ("AAPL.csv", "1970-02-01", 31),
        ("1999-01-01/AAPL.csv", None, 0),
    ],
)
def test_the_day_of_a_file(name: str, date: str | None, days: int) -> None:
    assert lobster.midnight_ns(name, date) == days * DAY_NS


@pytest.mark.parametrize("date", ["2012-13-01", "yesterday", "1969-12-31"])
def test_what_is_no_day(date: str) -> None:
    with pytest.raises(BadInput, match=f"x.csv: date .*{date}.*: expected"):
        lobster.midnight_ns("x.csv", date)


# -- commands ------------------------------------------------------------------------------------


def test_rows_become_commands() -> None:
    session = converted("1,10,30,500,1 2,10,5,500,1 4,10,20,500,1 3,10,5,500,1")
    records = session.records
    assert told(session) == [
        (CommandType.ENTER, 10, 30),
        (CommandType.REDUCE, 10, 25),
        (CommandType.ENTER, 11, 20),
        (CommandType.CANCEL, 10, 0),
    ]
    assert records["side"].tolist() == [Side.BUY, 0, Side.SELL, 0]
    assert records["price"].tolist() == [500, 0, 500, 0]
    assert records["kind_tif"].tolist() == [0, 0, Tif.IOC << 4, 0]
    assert records["instrument"].tolist() == [1] * 4
    assert records["time_ns"].tolist() == [n * NS_PER_S + NS_PER_S // 2 for n in range(4)]
    assert session.rows.tolist() == [0, 1, 2, 3]
    assert session.leaves.tolist() == [30, 25, 5, 0]


def test_what_touches_no_visible_order_is_no_command() -> None:
    assert told(converted("5,0,30,500,1 6,0,9,500,-1")) == []


def test_a_halt_and_what_ends_it() -> None:
    records = converted("7,0,0,1,-1 7,0,0,-1,-1 7,0,0,-1,-1 7,0,0,0,-1 7,0,0,1,-1").records
    assert records["type"].tolist() == [CommandType.STATE] * 2
    assert records["parameter"].tolist() == [Action.HALT, Action.RESUME]
    assert records["time_ns"].tolist() == [1_500_000_000, 3_500_000_000]


OLDER = "1,100,7,50,1 4,20,3,60,-1 3,20,4,60,-1 1,30,9,40,1 1,110,1,50,1"
"""Announced: 100, 110 and late 30. Never announced: 20."""


def test_seed_none() -> None:
    session = converted(OLDER, "none")
    assert not session.ahead.any()
    assert [order for _, order, _ in told(session)] == [100, 111, 20, 30, 110]


def test_seed_resting() -> None:
    session = converted(OLDER, "resting")
    assert [order for _, order, _ in told(session)] == [20, 100, 111, 20, 30, 110]
    assert told(session)[0] == (CommandType.ENTER, 20, 7)
    assert session.ahead.tolist() == [True] + [False] * 5
    assert session.rows.tolist() == [UNTOLD, 0, 1, 2, 3, 4]


def test_seed_all() -> None:
    session = converted(OLDER, "all")
    assert [order for _, order, _ in told(session)] == [20, 30, 100, 111, 20, 110]
    assert session.ahead.tolist() == [True, True] + [False] * 4
    assert session.rows.tolist() == [UNTOLD, 3, 0, 1, 2, 4]
    assert session.records["time_ns"].tolist()[:3] == [NS_PER_S // 2] * 3


def test_an_order_that_was_announced_nowhere_comes_before_the_next_larger_id() -> None:
    session = converted("1,100,7,50,1 1,120,7,50,1 4,110,3,50,1", "resting")
    assert [order for _, order, _ in told(session)] == [100, 110, 120, 121]
    assert session.records["time_ns"].tolist()[1] == 1_500_000_000


def test_a_seed_that_is_none() -> None:
    with pytest.raises(BadInput, match="seed 'some': expected one of none, resting, all"):
        converted(LINE.partition(",")[2], "some")


@pytest.mark.parametrize("seed", ["none", "resting", "all"])
@given(number=st.integers(0, 1 << 32))
def test_commands_follow_rows_in_time_and_place(seed: str, number: int) -> None:
    source = random.Random(number)
    lines = [
        f"{source.randint(1, 4)},{source.randint(1, 9)},{source.randint(1, 9)},50,1"
        for _ in range(source.randint(1, 30))
    ]
    session = converted(" ".join(lines), seed)
    records, rows = session.records, session.rows
    assert (np.diff(records["time_ns"].astype(np.int64)) >= 0).all()
    of_rows = rows[~session.ahead]
    assert (np.diff(of_rows) > 0).all()
    skipped = set(range(len(lines))) - set(of_rows.tolist())
    assert skipped == set(rows[session.ahead & (rows != UNTOLD)].tolist())
    if seed == "none":
        assert not skipped and not session.ahead.any()
    ahead = records["order_id"][session.ahead]
    assert np.unique(ahead).size == ahead.size
    aggressors = records["order_id"][records["kind_tif"] != 0]
    largest = max(int(line.split(",")[1]) for line in lines)
    assert (aggressors > largest).all() and np.unique(aggressors).size == aggressors.size


def test_a_recorded_hour_of_a_real_market(shared_data: Callable[[str], Path]) -> None:
    path = shared_data("lobster/AAPL_2012-06-21_34200000_37800000_message_50.csv")
    rows = lobster.read(path)
    assert rows.type.size == 91_997 and (rows.type == Event.EXECUTE).sum() == 4_067
    assert [int(convert(rows, seed).ahead.sum()) for seed in ("none", "resting", "all")] == [
        0,
        80,
        80 + 229,
    ]
