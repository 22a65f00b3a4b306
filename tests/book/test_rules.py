"""The rules, one at a time, through both books. Many are ways in which order books have gone wrong
in public."""

from typing import Any

import numpy as np
import pytest

import matchbox
from matchbox import Kind, Reason, ReportFlag
from matchbox.constants import LEVEL_QUANTITY_MAX, QUANTITY_MAX, CommandType
from matchbox.embedded import Engine, EngineOf, ReferenceEngine

Maker = Any


@pytest.fixture(params=[Engine, ReferenceEngine])
def engine(request: pytest.FixtureRequest) -> EngineOf:
    return request.param(orders=2048, levels=64, instruments=4)


def buy(engine: EngineOf, order_id: int, quantity: int, price: int, **more: Any) -> np.ndarray:
    return engine.enter(order_id=order_id, side="buy", price=price, quantity=quantity, **more)


def sell(engine: EngineOf, order_id: int, quantity: int, price: int, **more: Any) -> np.ndarray:
    return engine.enter(order_id=order_id, side="sell", price=price, quantity=quantity, **more)


def trades(reports: np.ndarray) -> list[tuple[int, int, int]]:
    """(reference of the resting order, price, quantity)."""
    rows = reports[reports["kind"] == Kind.EXECUTED]
    return [(int(r["reference"]), int(r["price"]), int(r["quantity"])) for r in rows]


def kinds(reports: np.ndarray) -> list[tuple[Kind, Reason]]:
    return [(Kind(r["kind"]), Reason(r["reason"])) for r in reports]


def rejected(reports: np.ndarray, reason: Reason) -> bool:
    return kinds(reports) == [(Kind.REJECTED, reason)]


def test_an_accepted_order_is_named_by_its_report(engine: EngineOf) -> None:
    report = buy(engine, 7, 10, 100)[0]
    assert report["reference"] == report["report_sequence"] == 1
    assert (report["contra"], report["price"], report["quantity"]) == (7, 100, 10)
    assert report["flags"] == ReportFlag.LAST


def test_a_partial_fill_keeps_the_place(engine: EngineOf) -> None:
    sell(engine, 1, 10, 100)
    sell(engine, 2, 10, 100)
    hit = [
        t[0]
        for q in (4, 4, 5)
        for t in trades(buy(engine, 100 + q + engine.report_sequence, q, 100))
    ]
    assert hit == [1, 1, 1, 2]


def test_a_cancel_within_a_level_keeps_the_queue(engine: EngineOf) -> None:
    buy(engine, 90, 5, 100)
    buy(engine, 2, 3, 100)
    engine.cancel(order_id=90)
    buy(engine, 3, 7, 100)
    assert trades(sell(engine, 4, 3, 100)) == [(2, 100, 3)]


def test_the_best_price_trades_first(engine: EngineOf) -> None:
    buy(engine, 1, 5, 90)
    buy(engine, 2, 5, 100)
    assert trades(sell(engine, 3, 5, 95)) == [(2, 100, 5)]


def test_a_limit_is_not_swept_through(engine: EngineOf) -> None:
    sell(engine, 1, 5, 100)
    sell(engine, 2, 10, 105)
    assert trades(buy(engine, 3, 12, 102)) == [(1, 100, 5)]
    assert engine.book(1).bids == [(102, [(3, 7)])]


def test_no_trade_of_nothing(engine: EngineOf) -> None:
    sell(engine, 1, 5, 100)
    sell(engine, 2, 5, 100)
    assert trades(buy(engine, 3, 5, 100)) == [(1, 100, 5)]
    assert engine.book(1).asks == [(100, [(2, 5)])]


def test_an_ioc_never_rests(engine: EngineOf) -> None:
    sell(engine, 1, 5, 100)
    reports = buy(engine, 2, 8, 100, tif="ioc")
    assert kinds(reports)[-1] == (Kind.CANCELED, Reason.IOC)
    assert reports[-1]["quantity"] == 3 and engine.book(1).bids == []
    assert kinds(buy(engine, 3, 8, 100, tif="ioc"))[-1] == (Kind.CANCELED, Reason.IOC)


def test_filled_orders_are_unknown(engine: EngineOf) -> None:
    sell(engine, 1, 5, 100)
    buy(engine, 2, 5, 100)
    assert rejected(engine.cancel(order_id=1), Reason.UNKNOWN_ORDER)
    assert rejected(engine.replace(order_id=1, price=101, quantity=3), Reason.UNKNOWN_ORDER)
    assert rejected(engine.reduce(order_id=2, quantity=1), Reason.UNKNOWN_ORDER)


def test_an_id_is_free_again_after_a_fill(engine: EngineOf) -> None:
    sell(engine, 1, 5, 100)
    buy(engine, 2, 5, 99)
    assert trades(engine.replace(order_id=2, price=100, quantity=5)) == [(1, 100, 5)]
    assert rejected(engine.cancel(order_id=2), Reason.UNKNOWN_ORDER)
    assert kinds(buy(engine, 2, 5, 98)) == [(Kind.ACCEPTED, Reason.NONE)]


def test_ids_belong_to_accounts(engine: EngineOf) -> None:
    buy(engine, 1, 5, 100, account=1)
    assert kinds(buy(engine, 1, 5, 100, account=2)) == [(Kind.ACCEPTED, Reason.NONE)]
    assert rejected(buy(engine, 1, 5, 100, account=1), Reason.DUPLICATE_ORDER_ID)
    assert rejected(engine.cancel(order_id=1, account=3), Reason.UNKNOWN_ORDER)
    assert engine.cancel(order_id=1, account=2)[0]["reference"] == 2


def test_reduce_keeps_the_place(engine: EngineOf) -> None:
    buy(engine, 1, 10, 100)
    buy(engine, 2, 10, 100)
    report = engine.reduce(order_id=1, quantity=4)[0]
    assert (report["kind"], report["reason"], report["quantity"]) == (
        Kind.RESTATED,
        Reason.REDUCE,
        4,
    )
    assert engine.book(1).bids == [(100, [(1, 4), (2, 10)])]
    assert rejected(engine.reduce(order_id=1, quantity=4), Reason.NOT_REDUCED)
    assert kinds(engine.reduce(order_id=1, quantity=0)) == [(Kind.CANCELED, Reason.USER)]


@pytest.mark.parametrize("quantity", [4, 10])
def test_replace_to_no_more_at_the_same_price_keeps_the_place(
    engine: EngineOf, quantity: int
) -> None:
    buy(engine, 1, 10, 100)
    buy(engine, 2, 10, 100)
    report = engine.replace(order_id=1, price=100, quantity=quantity)[0]
    assert report["kind"] == Kind.REPLACED and report["reference"] == 1
    assert not report["flags"] & ReportFlag.REQUEUED
    assert engine.book(1).bids == [(100, [(1, quantity), (2, 10)])]


@pytest.mark.parametrize("change", [{"quantity": 11}, {"quantity": 4, "requeue": True}])
def test_replace_otherwise_goes_to_the_back(engine: EngineOf, change: dict[str, Any]) -> None:
    buy(engine, 1, 10, 100)
    buy(engine, 2, 10, 100)
    report = engine.replace(order_id=1, price=100, **change)[0]
    assert report["flags"] & ReportFlag.REQUEUED and report["reference"] == 1
    assert engine.book(1).bids == [(100, [(2, 10), (1, change["quantity"])])]


def test_replace_renames(engine: EngineOf) -> None:
    buy(engine, 1, 10, 100)
    assert engine.replace(order_id=1, new_order_id=9, price=100, quantity=10)[0]["contra"] == 9
    assert rejected(engine.cancel(order_id=1), Reason.UNKNOWN_ORDER)
    buy(engine, 1, 10, 99)
    assert rejected(
        engine.replace(order_id=9, new_order_id=1, price=100, quantity=10),
        Reason.DUPLICATE_ORDER_ID,
    )
    assert engine.cancel(order_id=9)[0]["reference"] == 1


def test_a_replace_that_crosses_trades(engine: EngineOf) -> None:
    sell(engine, 1, 1, 200)
    buy(engine, 2, 1, 100)
    reports = engine.replace(order_id=2, price=200, quantity=1)
    assert kinds(reports) == [(Kind.REPLACED, Reason.NONE), (Kind.EXECUTED, Reason.NONE)]
    assert (reports[1]["reference"], reports[1]["contra"]) == (1, 2)
    assert engine.book(1) == ([], [])


def test_replace_after_a_partial_fill_is_about_what_is_left(engine: EngineOf) -> None:
    sell(engine, 1, 10, 100)
    buy(engine, 2, 4, 100)
    engine.replace(order_id=1, price=101, quantity=6)
    assert engine.book(1).asks == [(101, [(1, 6)])]


def test_a_thousand_orders_of_one_level(engine: EngineOf) -> None:
    for order_id in range(1001):
        buy(engine, order_id, 1, 50)
    assert len(engine.book(1).bids[0][1]) == 1001


def test_a_level_never_overflows(engine: EngineOf) -> None:
    assert kinds(buy(engine, 1, QUANTITY_MAX, 100)) == [(Kind.ACCEPTED, Reason.NONE)]
    before = engine.book(1)
    assert rejected(buy(engine, 2, QUANTITY_MAX, 100), Reason.LEVEL_OVERFLOW)
    assert engine.book(1) == before
    fits = LEVEL_QUANTITY_MAX - QUANTITY_MAX
    assert kinds(buy(engine, 2, fits, 100)) == [(Kind.ACCEPTED, Reason.NONE)]
    assert rejected(buy(engine, 3, 1, 100), Reason.LEVEL_OVERFLOW)
    assert rejected(buy(engine, 3, QUANTITY_MAX + 1, 99), Reason.INVALID_QUANTITY)
    assert kinds(buy(engine, 3, 1, 99)) == [(Kind.ACCEPTED, Reason.NONE)]


def test_an_order_makes_room_for_itself(engine: EngineOf) -> None:
    """A replaced order has left its level before its new terms are weighed."""
    buy(engine, 1, QUANTITY_MAX, 100)
    buy(engine, 2, LEVEL_QUANTITY_MAX - QUANTITY_MAX, 100)
    reports = engine.replace(order_id=1, price=100, quantity=QUANTITY_MAX, requeue=True)
    assert kinds(reports) == [(Kind.REPLACED, Reason.NONE)]
    assert rejected(
        engine.replace(order_id=2, price=100, quantity=QUANTITY_MAX), Reason.LEVEL_OVERFLOW
    )
    buy(engine, 3, 1, 99)
    assert rejected(engine.replace(order_id=3, price=100, quantity=1), Reason.LEVEL_OVERFLOW)


# What is wrong in order of the checks: a field, its wrong and right value, the reason.
CHECKS: dict[CommandType, list[tuple[str, int, int, Reason]]] = {
    CommandType.ENTER: [
        ("instrument", 4, 2, Reason.UNKNOWN_INSTRUMENT),
        ("instrument", 2, 1, Reason.INSTRUMENT_NOT_OPEN),
        ("side", 2, 1, Reason.INVALID_SIDE),
        ("kind_tif", 0x28, 0x20, Reason.INVALID_KIND),
        ("kind_tif", 0x20, 0x10, Reason.INVALID_TIF),
        ("flags", 1, 0, Reason.INVALID_FLAGS),
        ("quantity", 0, QUANTITY_MAX + 1, Reason.INVALID_QUANTITY),
        ("quantity", QUANTITY_MAX + 1, 1, Reason.INVALID_QUANTITY),
        ("order_id", 1, 9, Reason.DUPLICATE_ORDER_ID),
    ],
    CommandType.CANCEL: [
        ("account", 1, 0, Reason.UNKNOWN_ORDER),
        ("order_id", 9, 1, Reason.UNKNOWN_ORDER),
        ("instrument", 2, 1, Reason.UNKNOWN_ORDER),
    ],
    CommandType.REDUCE: [
        ("order_id", 9, 1, Reason.UNKNOWN_ORDER),
        ("instrument", 2, 0, Reason.UNKNOWN_ORDER),
        ("flags", 1, 0, Reason.INVALID_FLAGS),
        ("quantity", -1, QUANTITY_MAX + 1, Reason.INVALID_QUANTITY),
        ("quantity", QUANTITY_MAX + 1, QUANTITY_MAX, Reason.INVALID_QUANTITY),
        ("quantity", QUANTITY_MAX, 9, Reason.NOT_REDUCED),
    ],
    CommandType.REPLACE: [
        ("order_id", 9, 3, Reason.UNKNOWN_ORDER),
        ("instrument", 1, 0, Reason.UNKNOWN_ORDER),
        ("order_id", 3, 1, Reason.INSTRUMENT_NOT_OPEN),
        ("flags", 2, 1, Reason.INVALID_FLAGS),
        ("quantity", 0, QUANTITY_MAX + 1, Reason.INVALID_QUANTITY),
        ("quantity", QUANTITY_MAX + 1, 5, Reason.INVALID_QUANTITY),
        ("new_order_id", 2, 1, Reason.DUPLICATE_ORDER_ID),
    ],
    CommandType.DEFINE: [
        ("account", 1, 0, Reason.NOT_PERMITTED),
        ("instrument", 0, 5, Reason.UNKNOWN_INSTRUMENT),
        ("instrument", 5, 4, Reason.UNKNOWN_INSTRUMENT),
        ("parameter", 3, 2, Reason.INVALID_PARAMETER),
        ("value", -1, 19, Reason.INVALID_PARAMETER),
        ("value", 19, 18, Reason.INVALID_PARAMETER),
    ],
    CommandType.STATE: [
        ("account", 1, 0, Reason.NOT_PERMITTED),
        ("instrument", 4, 1, Reason.UNKNOWN_INSTRUMENT),
        ("parameter", 5, 1, Reason.INVALID_PARAMETER),
        ("parameter", 1, 2, Reason.INVALID_TRANSITION),
    ],
}


@pytest.mark.parametrize("command_type", CHECKS, ids=lambda command_type: command_type.name)
def test_the_first_check_that_fails_is_the_reason(
    engine: EngineOf, command_type: CommandType
) -> None:
    """All that can be wrong is; one thing after the other is put right."""
    engine.define(instrument=2, price_scale=0)
    engine.set_state(instrument=2, state="open")
    buy(engine, 1, 10, 100)
    buy(engine, 2, 10, 100)
    buy(engine, 3, 10, 100, instrument=2)
    engine.set_state(instrument=2, state="halt")
    record = np.zeros(1, matchbox.RECORD)
    record["type"] = command_type
    if command_type < CommandType.DEFINE:  # there the value stands in its place
        record["price"] = 101
    checks = CHECKS[command_type]
    for field, wrong, _, _ in reversed(checks):
        record[field] = wrong
    for field, wrong, right, reason in checks:
        assert record[field] == wrong
        digest = engine.book_digest(1)
        assert rejected(engine.submit(record), reason), (field, wrong)
        assert engine.book_digest(1) == digest, "nothing was changed"
        record[field] = right
    assert (engine.submit(record)["kind"] != Kind.REJECTED).all()


@pytest.mark.parametrize("number", [0, 5, 6, 9, 0x41, 0x42, 0x80, 255])
def test_other_types_mean_nothing_here(engine: EngineOf, number: int) -> None:
    command = np.frombuffer(bytes([number]) + b"\1" * 39, matchbox.COMMAND)
    report = engine.submit(command)[0]
    expected = (1, 0, 0x0101010101010101, 0, 0, 0x01010101, Kind.REJECTED, 0)
    assert report.item()[:8] == expected
    assert (report["reason"], report["flags"]) == (Reason.NOT_SUPPORTED, ReportFlag.LAST)


def test_the_last_price_is_part_of_the_state(engine: EngineOf) -> None:
    sell(engine, 1, 1, 100)
    sell(engine, 2, 1, 101)
    buy(engine, 3, 2, 105)
    (_, instruments) = engine.engine_book.rows()
    assert (instruments["traded"][0], instruments["last_price"][0]) == (1, 101)


def test_a_report_says_whom_it_concerns(engine: EngineOf) -> None:
    records = np.zeros(3, matchbox.RECORD)
    records["type"], records["instrument"] = CommandType.ENTER, 1
    records["account"], records["login"], records["order_id"] = [7, 8, 8], [70, 80, 81], 1
    records["side"], records["price"], records["quantity"] = [1, 0, 0], 100, [5, 5, 0]
    rows = engine.outputs(records, 0, None)
    columns = ["command", "resting_account", "aggressor_account", "checksum"]  # the order's login
    assert [tuple(int(row[name]) for name in columns) for row in rows] == [
        (1, 7, 7, 70),
        (2, 8, 8, 80),
        (2, 7, 8, 70),
        (3, 8, 8, 0),
    ]


@pytest.mark.parametrize("made", [Engine, ReferenceEngine])
def test_a_full_book_still_trades(made: Maker) -> None:
    engine = made(orders=2, levels=2, instruments=1)
    sell(engine, 1, 5, 100)
    sell(engine, 2, 5, 101)
    assert rejected(sell(engine, 3, 5, 101), Reason.ORDERS_FULL)
    assert rejected(buy(engine, 3, 5, 99), Reason.ORDERS_FULL)
    assert kinds(buy(engine, 3, 5, 99, tif="ioc"))[-1] == (Kind.CANCELED, Reason.IOC)
    assert trades(buy(engine, 3, 7, 100)) == [(1, 100, 5)]
    assert engine.book(1).bids == [(100, [(3, 2)])]
    engine.check()


@pytest.mark.parametrize("made", [Engine, ReferenceEngine])
def test_levels_are_counted_over_all_books(made: Maker) -> None:
    engine = made(orders=10, levels=2, instruments=1)
    sell(engine, 1, 5, 101)
    buy(engine, 2, 5, 99)
    assert rejected(buy(engine, 3, 5, 98), Reason.LEVELS_FULL)
    assert kinds(buy(engine, 3, 5, 99)) == [(Kind.ACCEPTED, Reason.NONE)]
    assert rejected(engine.replace(order_id=3, price=98, quantity=5), Reason.LEVELS_FULL)
    engine.cancel(order_id=2)
    assert kinds(engine.replace(order_id=3, price=98, quantity=5)) == [(Kind.REPLACED, Reason.NONE)]
    engine.check()


def test_instruments_are_defined_opened_halted_and_closed(engine: EngineOf) -> None:
    assert rejected(buy(engine, 1, 1, 1, instrument=2), Reason.UNKNOWN_INSTRUMENT)
    assert kinds(engine.define(instrument=2, price_scale=4)) == [(Kind.INSTRUMENT, Reason.NONE)]
    assert rejected(buy(engine, 1, 1, 1, instrument=2), Reason.INSTRUMENT_NOT_OPEN)
    assert kinds(engine.set_state(instrument=2, state="open")) == [(Kind.STATE, Reason.NONE)]
    buy(engine, 1, 5, 10, instrument=2)
    engine.set_state(instrument=2, state="halt")
    assert rejected(buy(engine, 2, 1, 1, instrument=2), Reason.INSTRUMENT_NOT_OPEN)
    assert rejected(engine.replace(order_id=1, price=9, quantity=5), Reason.INSTRUMENT_NOT_OPEN)
    assert kinds(engine.reduce(order_id=1, quantity=3)) == [(Kind.RESTATED, Reason.REDUCE)]
    assert rejected(engine.set_state(instrument=2, state="open"), Reason.INVALID_TRANSITION)
    engine.set_state(instrument=2, state="resume")
    assert kinds(engine.cancel(order_id=1)) == [(Kind.CANCELED, Reason.USER)]
    engine.set_state(instrument=2, state="close")
    for number in (0, 5):
        assert rejected(engine.define(instrument=number, price_scale=1), Reason.UNKNOWN_INSTRUMENT)
    assert rejected(engine.define(instrument=3, price_scale=19), Reason.INVALID_PARAMETER)
    assert rejected(engine.set_state(instrument=2, state="open", account=1), Reason.NOT_PERMITTED)


def test_instruments_do_not_meet(engine: EngineOf) -> None:
    engine.define(instrument=2, price_scale=0)
    engine.set_state(instrument=2, state="open")
    sell(engine, 1, 5, 100)
    assert trades(buy(engine, 2, 5, 100, instrument=2)) == []
    assert rejected(engine.cancel(order_id=2, instrument=1), Reason.UNKNOWN_ORDER)
    assert kinds(engine.cancel(order_id=2, instrument=2)) == [(Kind.CANCELED, Reason.USER)]


def test_the_same_commands_make_the_same_bytes() -> None:
    def session() -> bytes:
        engine = matchbox.Engine(orders=64, levels=64, instruments=1)
        made = [buy(engine, i, 1 + i, 100 - i % 7) for i in range(50)]
        made += [engine.cancel(order_id=i) for i in range(0, 50, 3)]
        return b"".join(reports.tobytes() for reports in made)

    assert session() == session()
