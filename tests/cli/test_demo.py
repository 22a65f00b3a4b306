"""`matchbox demo`, and what commands look like on a terminal, on a dumb one and without one."""

import re

import numpy as np
import pytest

from matchbox import demo
from matchbox.cli import demo as command
from matchbox.constants import Exit
from matchbox.demo import Outcome, check
from matchbox.embedded import ReferenceEngine
from tests.cli import session
from tests.cli.command import ESCAPE, matchbox, on_terminal

COLOUR = re.compile(r"\x1b\[[0-9;]*(3[0-8]|9[0-7])[0-9;]*m")


def test_demo_without_a_terminal() -> None:
    result = matchbox("demo", NO_COLOR="-")
    assert result.status == Exit.OK
    assert "gaps: 0" in result.stdout
    assert "all agree" in result.stdout
    assert "NOT SO" not in result.stdout
    assert not ESCAPE.search(result.stdout + result.stderr)
    assert "running the session" in result.stderr


@pytest.mark.parametrize(
    ("changes", "colours", "redraws"),
    [
        ({}, True, True),
        ({"NO_COLOR": "1"}, False, True),
        ({"TERM": "dumb"}, False, False),
    ],
)
def test_demo_on_a_terminal(changes: dict[str, str], colours: bool, redraws: bool) -> None:
    status, text = on_terminal("demo", **changes)
    assert status == Exit.OK
    assert "all agree" in ESCAPE.sub("", text)
    sequences = ESCAPE.findall(text)
    assert any(COLOUR.match(found) for found in sequences) == colours
    assert any(found.endswith(("K", "A")) for found in sequences) == redraws


@pytest.fixture
def outcome() -> tuple[Outcome, np.ndarray, np.ndarray]:
    """What a right demo would have found, its reports and its log."""
    engine = ReferenceEngine(*demo_limits())
    records = session.records(300)
    records["command_sequence"] = np.arange(2, 302)
    reports = engine.submit(records.copy())
    found = Outcome(digest=engine.digest)
    found.summary = summary(len(reports))
    return found, reports, records


def demo_limits() -> tuple[int, int, int]:
    return demo.LIMITS.orders, demo.LIMITS.levels, demo.LIMITS.instruments


def summary(reports: int, gaps: int = 0, missing: int = 0) -> demo.Summary:
    return demo.Summary("S", 0, reports, 1, reports, 1, 0, gaps, missing, 0, 0, 0, 0, 0, "")


def test_right(outcome: tuple[Outcome, np.ndarray, np.ndarray]) -> None:
    found, reports, records = outcome
    check(found, reports, reports, records)
    assert found.good
    assert found.commands == 300
    assert found.bids[0].price < found.asks[0].price


@pytest.mark.parametrize("wrong", ["own", "public", "digest", "gap", "count", "log"])
def test_anything_wrong_is_found(
    outcome: tuple[Outcome, np.ndarray, np.ndarray], wrong: str
) -> None:
    found, reports, records = outcome
    own, public = reports.copy(), reports.copy()
    if wrong == "own":
        own["price"][17] += 1
    elif wrong == "public":
        public["quantity"][np.flatnonzero(public["kind"] == 3)[0]] += 1
    elif wrong == "digest":
        found.digest = "0" * 32
    elif wrong == "gap":
        found.summary = summary(len(reports), gaps=1)
    elif wrong == "count":
        found.summary = summary(len(reports) - 1)
    elif wrong == "log":
        records = records[:-1]
    check(found, own, public, records)
    assert not found.good


def test_status_and_words_when_they_disagree(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from matchbox.cli.group import run

    bad = Outcome(checks=[demo.Check("gaps: 3", False)])
    monkeypatch.setattr(demo, "run", lambda tell: bad)
    assert run(["demo"]) == Exit.CHECK_FAILED
    assert command.demo.name == "demo"
    text = capsys.readouterr().out
    assert "NOT SO  gaps: 3" in text
    assert "THEY DO NOT AGREE" in text


def test_ladder_adds_up_levels() -> None:
    engine = ReferenceEngine()
    for order_id, (side, price, quantity) in enumerate(
        [("buy", 99, 5), ("buy", 100, 1), ("buy", 100, 2), ("sell", 102, 7)], 1
    ):
        engine.enter(order_id=order_id, side=side, price=price, quantity=quantity)
    orders, _ = engine.engine_book.rows()
    assert demo.ladder(orders, demo.Side.BUY) == [demo.Level(100, 3, 2), demo.Level(99, 5, 1)]
    assert demo.ladder(orders, demo.Side.SELL) == [demo.Level(102, 7, 1)]
