"""LOBSTER rows as commands: each event, and the orders from before the file."""

import numpy as np
import pytest

from matchbox.constants import Action, CommandType, Side, Tif
from matchbox.decode.lobster import Event, Rows
from matchbox.decode.lobster_commands import UNTOLD, Session, convert
from matchbox.errors import BadInput
from matchbox.schema import RECORD

BUY, SELL = 1, -1


def rows_of(*rows: tuple[int, int, int, int, int]) -> Rows:
    """type, order id, quantity, price, direction; a row a second, from second 1."""
    columns = [np.array(column, np.int64) for column in zip(*rows, strict=True)]
    times = np.arange(1, len(rows) + 1).astype(np.uint64) * np.uint64(10**9)
    return Rows(times, columns[0].astype(np.uint8), *columns[1:4], columns[4].astype(np.int8))


def told(session: Session) -> list[tuple[int, int, int]]:
    """Row, type and order id of each command."""
    records = session.records
    columns = (session.rows, records["type"], records["order_id"])
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_every_event() -> None:
    session = convert(
        rows_of(
            (Event.SUBMIT, 10, 100, 5000, BUY),
            (Event.SUBMIT, 11, 50, 5001, SELL),
            (Event.REDUCE, 10, 30, 5000, BUY),
            (Event.EXECUTE, 10, 20, 5000, BUY),
            (Event.EXECUTE_HIDDEN, 0, 5, 5000, BUY),
            (Event.CROSS, 0, 5, 5000, BUY),
            (Event.EXECUTE, 11, 50, 5001, SELL),
            (Event.REDUCE, 10, 1, 5000, BUY),
            (Event.DELETE, 10, 49, 5000, BUY),
        )
    )
    enter, other, reduce, sell, buy, again, cancel = session.records
    assert session.records.dtype == RECORD
    assert session.rows.tolist() == [0, 1, 2, 3, 6, 7, 8]
    assert session.records["time_ns"].tolist() == [(row + 1) * 10**9 for row in session.rows]
    assert (session.records["instrument"] == 1).all()
    assert enter["type"] == CommandType.ENTER
    assert (enter["side"], enter["price"], enter["quantity"]) == (Side.BUY, 5000, 100)
    assert (other["side"], other["kind_tif"]) == (Side.SELL, 0)
    assert (reduce["type"], reduce["order_id"], reduce["quantity"]) == (CommandType.REDUCE, 10, 70)
    assert (sell["type"], sell["kind_tif"]) == (CommandType.ENTER, Tif.IOC << 4)
    assert (sell["side"], sell["price"], sell["quantity"]) == (Side.SELL, 5000, 20)
    assert (buy["side"], buy["price"], buy["quantity"]) == (Side.BUY, 5001, 50)
    assert [sell["order_id"], buy["order_id"]] == [12, 13]
    assert again["quantity"] == 49
    assert (cancel["type"], cancel["order_id"]) == (CommandType.CANCEL, 10)
    assert session.leaves.tolist() == [100, 50, 70, 50, 0, 0, 0, 49, 0]
    assert not session.ahead.any()


def test_halts() -> None:
    halt, quoting, trading = (
        (Event.HALT, 0, 0, -1, -1),
        (Event.HALT, 0, 0, 0, -1),
        (Event.HALT, 0, 0, 1, -1),
    )
    session = convert(rows_of(trading, halt, halt, quoting, trading, halt, trading))
    assert (session.records["type"] == CommandType.STATE).all()
    assert session.rows.tolist() == [1, 3, 5, 6]
    actions = session.records["parameter"].tolist()
    assert actions == [Action.HALT, Action.RESUME, Action.HALT, Action.RESUME]
    assert session.records["order_id"].tolist() == [0] * 4


BEFORE = rows_of(
    (Event.SUBMIT, 100, 5, 50, BUY),
    (Event.REDUCE, 7, 2, 49, BUY),  # never announced
    (Event.SUBMIT, 103, 5, 60, SELL),
    (Event.SUBMIT, 40, 9, 50, BUY),  # announced late
    (Event.EXECUTE, 7, 3, 49, BUY),
    (Event.SUBMIT, 105, 5, 50, BUY),
    (Event.DELETE, 102, 8, 61, SELL),  # came while the file did not look
    (Event.SUBMIT, 101, 1, 50, BUY),  # late, but not older than the file
)
ENTER, REDUCE, CANCEL = CommandType.ENTER, CommandType.REDUCE, CommandType.CANCEL
NAIVE = [
    (0, ENTER, 100),
    (1, REDUCE, 7),
    (2, ENTER, 103),
    (3, ENTER, 40),
    (4, ENTER, 106),
    (5, ENTER, 105),
    (6, CANCEL, 102),
    (7, ENTER, 101),
]


def test_seed_none() -> None:
    assert told(convert(BEFORE, "none")) == NAIVE


def test_seed_resting() -> None:
    session = convert(BEFORE, "resting")
    before = [(UNTOLD, ENTER, 7), *NAIVE[:2], (UNTOLD, ENTER, 102), *NAIVE[2:]]
    assert told(session) == before
    old, other = session.records[session.ahead]
    assert (old["quantity"], old["price"], old["side"], old["time_ns"]) == (5, 49, 0, 10**9)
    assert (other["quantity"], other["price"], other["time_ns"]) == (8, 61, 3 * 10**9)
    assert session.leaves[[1, 4, 6]].tolist() == [3, 0, 0]


def test_seed_all() -> None:
    session = convert(BEFORE)
    assert told(session) == [
        (UNTOLD, ENTER, 7),
        (3, ENTER, 40),
        *NAIVE[:2],
        (UNTOLD, ENTER, 102),
        NAIVE[2],
        *NAIVE[4:],
    ]
    late = session.records[1]
    assert (late["quantity"], late["price"], late["time_ns"]) == (9, 50, 10**9)
    assert session.ahead.tolist() == [True, True, False, False, True, *[False] * 5]


def test_an_order_is_entered_before_its_first_event() -> None:
    """Even if no larger id is announced until then."""
    session = convert(rows_of((Event.SUBMIT, 1, 5, 50, BUY), (Event.DELETE, 2, 4, 51, SELL)))
    assert told(session) == [(0, ENTER, 1), (UNTOLD, ENTER, 2), (1, CANCEL, 2)]


def test_touched_before_it_is_announced() -> None:
    """What left it before was there before; what comes later is as announced."""
    rows = rows_of(
        (Event.SUBMIT, 9, 5, 50, BUY),
        (Event.EXECUTE, 3, 4, 50, BUY),
        (Event.SUBMIT, 3, 6, 50, BUY),
        (Event.REDUCE, 3, 1, 50, BUY),
    )
    session = convert(rows)
    assert told(session)[0] == (UNTOLD, ENTER, 3)
    assert session.records["quantity"].tolist() == [4, 5, 4, 6, 5]
    assert session.leaves.tolist() == [5, 0, 6, 5]


def test_a_file_without_announcements() -> None:
    session = convert(rows_of((Event.EXECUTE, 3, 4, 50, BUY), (Event.CROSS, 0, 0, 0, 0)))
    assert told(session) == [(UNTOLD, ENTER, 3), (0, ENTER, 4)]


def test_an_unknown_seed() -> None:
    with pytest.raises(BadInput, match="seed 'some': expected one of none, resting, all"):
        convert(BEFORE, "some")
