"""Parity: complete where the recording keeps price-time order; else every miss is named."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from matchbox import parity
from matchbox.embedded import Engine
from matchbox.errors import BadInput
from matchbox.generate_lobster import lobster_rows, write_lobster

MESSAGES = "lobster/AAPL_2012-06-21_34200000_37800000_message_50.csv"
ORDERBOOK = "lobster/AAPL_2012-06-21_34200000_57600000_orderbook_1.csv"


def scored(folder: Path, *rows: str, seed: str = "all") -> parity.Score:
    path = folder / "messages.csv"
    path.write_text("".join(f"{second},{row}\n" for second, row in enumerate(rows)))
    return parity.score(path, seed, engine=Engine(orders=64, levels=64, instruments=1))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_recording_in_price_time_order_is_repeated(tmp_path: Path, seed: int) -> None:
    rows = lobster_rows(4_000, seed=seed)
    write_lobster(tmp_path / "messages.csv", rows)
    score = parity.score(tmp_path / "messages.csv", engine=Engine(orders=4_096))
    assert score.executions > 100
    assert (score.hits, score.misses) == (score.executions, [])
    assert (score.rows, score.seeded) == (4_000, 0)


def test_orders_from_before_are_seeded(tmp_path: Path) -> None:
    rows = lobster_rows(3_000, seed=4, before=1_500)
    write_lobster(tmp_path / "messages.csv", rows)
    naive = parity.score(tmp_path / "messages.csv", "none", engine=Engine(orders=4_096))
    seeded = parity.score(tmp_path / "messages.csv", engine=Engine(orders=4_096))
    assert seeded.seeded
    assert naive.hits < naive.executions
    assert seeded.hits == seeded.executions == naive.executions


FIRST, SECOND = "1,11,10,100,1", "1,12,10,100,1"


@pytest.mark.parametrize(
    ("rows", "why", "instead"),
    [
        ((FIRST, SECOND, "4,12,10,100,1", "3,11,10,100,1"), "another order first", 11),
        ((FIRST, "1,12,10,101,1", "4,11,10,100,1"), "another price first", 12),
        ((FIRST, "4,11,11,100,1"), "too little left", 11),
        ((FIRST, "4,11,10,99,1"), "another price first", 11),
        ((FIRST, "1,13,1,90,1", "3,11,10,100,1", "4,11,5,100,1"), "order unknown", 13),
    ],
)
def test_each_way_to_miss(tmp_path: Path, rows: tuple[str, ...], why: str, instead: int) -> None:
    score = scored(tmp_path, *rows)
    (miss,) = score.misses
    assert (score.executions, score.hits) == (1, 0)
    assert (miss.why, miss.instead, miss.side) == (why, instead, "buy")
    assert rows[miss.line - 1].startswith("4,")


def test_nothing_there(tmp_path: Path) -> None:
    score = scored(tmp_path, FIRST, "4,9,10,100,-1", seed="none")
    assert score.misses[0].why == "order unknown"
    assert score.misses[0].instead is None


def test_one_difference_does_not_cause_another(tmp_path: Path) -> None:
    """The exchange passed over 11 once; what was recorded of 12 is done to 12."""
    score = scored(
        tmp_path,
        FIRST,
        SECOND,
        "4,12,4,100,1",
        "4,11,10,100,1",
        "4,12,6,100,1",
        "1,13,1,100,-1",
        "4,13,1,100,-1",
    )
    assert [miss.line for miss in score.misses] == [3]
    assert score.hits == 3


def test_top_of_book(tmp_path: Path) -> None:
    """Late ids count from their row on, as in the exchange's file."""
    messages = ("1,50,10,100,1", "1,51,5,105,-1", "1,20,7,101,1", "4,51,2,105,-1")
    expected = [(9999999999, 0, 100, 10), (105, 5, 100, 10), (105, 5, 101, 7), (105, 3, 101, 7)]
    (tmp_path / "m.csv").write_text("".join(f"{i},{row}\n" for i, row in enumerate(messages)))
    (tmp_path / "o.csv").write_text("".join(f"{','.join(map(str, top))}\n" for top in expected))
    engine = Engine(orders=64, levels=64, instruments=1)
    score = parity.score(tmp_path / "m.csv", orderbook=tmp_path / "o.csv", engine=engine)
    assert (score.top_states, score.top_hits) == (4, 4)
    assert score.seeded == 1


def test_an_orderbook_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "o.csv").write_text("1,2,3,4\n1,2,x,4\n")
    with pytest.raises(BadInput, match=r"o.csv:2: bid price: expected an integer"):
        parity.tops_in(tmp_path / "o.csv")


def test_as_text_and_json(tmp_path: Path) -> None:
    score = scored(tmp_path, FIRST, SECOND, "4,12,10,100,1", "4,11,10,100,1")
    assert score.text == "1 of 2 executions hit the recorded order (50.00 %)"
    told = json.loads(score.to_json())
    assert (told["hits"], told["executions"], told["top_states"]) == (1, 2, None)
    assert told["misses"][0]["order_id"] == 12


def test_progress(tmp_path: Path) -> None:
    write_lobster(tmp_path / "m.csv", lobster_rows(1_000))
    told: list[tuple[int, int]] = []
    parity.score(
        tmp_path / "m.csv",
        engine=Engine(orders=4_096),
        progress=lambda done, total: told.append((done, total)),
    )
    assert told[-1] == (1_000, 1_000)
    assert told == sorted(told)


@pytest.mark.parametrize(("seed", "hits"), [("none", 4_031), ("resting", 4_043), ("all", 4_058)])
def test_the_real_file(shared_data: Callable[[str], Path], seed: str, hits: int) -> None:
    score = parity.score(shared_data(MESSAGES), seed)
    assert (score.rows, score.executions, score.hits) == (91_997, 4_067, hits)
    assert len(score.misses) == 4_067 - hits


def test_the_real_top_of_book(shared_data: Callable[[str], Path]) -> None:
    score = parity.score(shared_data(MESSAGES), orderbook=shared_data(ORDERBOOK))
    assert (score.top_hits, score.top_states) == (23_422, 23_439)
