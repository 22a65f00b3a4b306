"""How often recorded executions are ours, on recordings of which we know the answer."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from matchbox import parity
from matchbox.decode.lobster import Event
from matchbox.embedded import Engine
from matchbox.errors import BadInput
from matchbox.generate_lobster import lobster_rows, write_lobster

MANY = 4000


def recorded(tmp_path: Path, text: str) -> Path:
    """A file of rows without times: `type,order id,size,price,direction`, parted by blanks."""
    path = tmp_path / "recorded.csv"
    path.write_text("\n".join(f"{time},{row}" for time, row in enumerate(text.split())))
    return path


@pytest.mark.parametrize("number", [1, 2])
def test_a_recording_in_price_time_order_is_hit_whole(tmp_path: Path, number: int) -> None:
    rows = lobster_rows(MANY, number)
    write_lobster(tmp_path / "made.csv", rows)
    for seed in ("none", "resting", "all"):
        score = parity.score(tmp_path / "made.csv", seed)
        assert score.executions == (rows.type == Event.EXECUTE).sum() > 0
        assert score.hits == score.executions and not score.misses
        assert (score.rows, score.commands, score.seeded) == (MANY, MANY, 0)


def test_orders_from_before_must_be_seeded(tmp_path: Path) -> None:
    write_lobster(tmp_path / "made.csv", lobster_rows(MANY, 3, before=1000))
    scores = {s: parity.score(tmp_path / "made.csv", s) for s in ("none", "resting", "all")}
    assert scores["none"].hits < scores["none"].executions
    for seed in ("resting", "all"):
        assert scores[seed].hits == scores[seed].executions and scores[seed].seeded


FRONT = "1,10,5,100,1 1,11,5,100,1 1,12,5,90,1"


@pytest.mark.parametrize(
    ("row", "why", "instead"),
    [
        ("4,11,5,100,1", "another order first", 10),
        ("4,12,5,90,1", "another price first", 10),
        ("4,10,6,100,1", "too little left", 10),
        ("4,99,5,200,-1", "order unknown", None),
    ],
)
def test_why_an_execution_is_not_hit(
    tmp_path: Path, row: str, why: str, instead: int | None
) -> None:
    path = recorded(tmp_path, f"{FRONT} {row} 4,10,1,100,1")
    (miss,) = parity.score(path, "none").misses[:1]
    _, order_id, quantity, price, direction = map(int, row.split(","))
    assert (miss.why, miss.instead, miss.line) == (why, instead, 4)
    assert (miss.order_id, miss.quantity, miss.price) == (order_id, quantity, price)
    assert miss.side == ("buy" if direction == 1 else "sell")


def test_one_difference_causes_no_other(tmp_path: Path) -> None:
    path = recorded(tmp_path, f"{FRONT} 4,11,2,100,1 4,10,5,100,1 4,11,3,100,1 4,12,5,90,1")
    engine = Engine(orders=64, levels=64, instruments=1)
    score = parity.score(path, engine=engine)
    assert [miss.line for miss in score.misses] == [4]
    assert (score.hits, score.executions) == (3, 4)
    assert engine.book(1) == ([], [])
    engine.check()


def test_the_top_of_book_is_compared(tmp_path: Path) -> None:
    path = recorded(tmp_path, f"{FRONT} 1,13,4,110,-1 4,10,5,100,1 3,12,5,90,1")
    none, empty = "9999999999,0", "-9999999999,0"
    tops = [f"{none},100,5", f"{none},100,10", f"{none},100,10", "110,4,100,10", "110,4,100,5"]
    orderbook = tmp_path / "orderbook.csv"
    orderbook.write_text("\n".join(tops))
    score = parity.score(path, "none", orderbook)
    assert (score.top_hits, score.top_states) == (4, 4)
    orderbook.write_text("\n".join([*tops[:3], f"110,4,{empty}", tops[4]]))
    score = parity.score(path, "none", orderbook)
    assert (score.top_hits, score.top_states) == (3, 4)


def test_a_bad_orderbook_is_named(tmp_path: Path) -> None:
    orderbook = tmp_path / "orderbook.csv"
    orderbook.write_text("1,2,3,4\n1,2,x,4")
    with pytest.raises(BadInput, match="orderbook.csv:2: bid price: expected an integer"):
        parity.score(recorded(tmp_path, FRONT), "none", orderbook)


def test_a_score_says_itself(tmp_path: Path) -> None:
    score = parity.score(recorded(tmp_path, f"{FRONT} 4,11,2,100,1 4,10,5,100,1"))
    assert score.text == "1 of 2 executions hit the recorded order (50.00 %)"
    values = json.loads(score.to_json())
    assert (values["hits"], values["executions"], values["seed"]) == (1, 2, "all")
    assert values["misses"][0]["why"] == "another order first"
    assert parity.score(recorded(tmp_path, FRONT)).text.startswith("0 of 0 executions")


def test_progress_ends_with_the_rows(tmp_path: Path) -> None:
    write_lobster(tmp_path / "made.csv", lobster_rows(MANY, 1))
    told: list[tuple[int, int]] = []
    parity.score(tmp_path / "made.csv", progress=lambda *done: told.append(done))
    assert told == sorted(told) and told[-1] == (MANY, MANY)


@pytest.mark.parametrize(("seed", "hits"), [("none", 4031), ("resting", 4043), ("all", 4058)])
def test_a_recorded_hour_of_a_real_market(
    shared_data: Callable[[str], Path], seed: str, hits: int
) -> None:
    score = parity.score(
        shared_data("lobster/AAPL_2012-06-21_34200000_37800000_message_50.csv"), seed
    )
    assert (score.hits, score.executions, len(score.misses)) == (hits, 4067, 4067 - hits)


def test_the_top_of_book_of_a_real_market(shared_data: Callable[[str], Path]) -> None:
    score = parity.score(
        shared_data("lobster/AAPL_2012-06-21_34200000_37800000_message_50.csv"),
        orderbook=shared_data("lobster/AAPL_2012-06-21_34200000_57600000_orderbook_1.csv"),
    )
    assert (score.top_hits, score.top_states) == (23_422, 23_439)
