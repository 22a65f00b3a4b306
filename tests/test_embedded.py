"""The engine in process: what it is given wrongly it names, and what it returns is plain."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import matchbox
from matchbox import Action, Reason, Side, Tif
from matchbox.embedded import Engine, EngineOf, ReferenceEngine
from matchbox.errors import BadInput


@pytest.fixture(params=[Engine, ReferenceEngine])
def engine(request: pytest.FixtureRequest) -> EngineOf:
    return request.param(orders=16, levels=16, instruments=2)


def test_names_and_codes_mean_the_same(engine: EngineOf) -> None:
    engine.enter(order_id=1, side="SELL", price=5, quantity=2, tif="gtc")
    made = engine.enter(order_id=2, side=Side.BUY, price=np.int64(5), quantity=1, tif=Tif.IOC)
    assert made["quantity"].tolist() == [1, 1]
    engine.set_state(instrument=1, state=Action.HALT)
    assert engine.book(1).asks == [(5, [(1, 1)])]


def test_arrays_of_commands(engine: EngineOf) -> None:
    commands = np.zeros(4, matchbox.COMMAND)
    commands["type"], commands["instrument"], commands["quantity"] = 1, 1, 3
    commands["order_id"] = range(4)
    commands.setflags(write=False)
    assert engine.submit(commands[::2]).dtype == matchbox.REPORT
    assert engine.submit(commands[:0]).size == 0
    engine.submit(matchbox.joined(commands[1:2], commands[3:]), account=0)
    assert engine.book(1).bids == [(0, [(0, 3), (2, 3), (1, 3), (3, 3)])]


ORDER = {"order_id": 1, "side": "buy", "price": 1, "quantity": 1}
WRONG: list[tuple[str, Callable[[Any], Any]]] = [
    ("order_id -1", lambda e: e.enter(**{**ORDER, "order_id": -1})),
    ("side 'bid': expected one of 'buy', 'sell'", lambda e: e.enter(**{**ORDER, "side": "bid"})),
    ("side 0", lambda e: e.enter(**{**ORDER, "side": 0})),
    ("price 1.5: expected a whole number", lambda e: e.enter(**{**ORDER, "price": 1.5})),
    ("price 9223372036854775808", lambda e: e.enter(**{**ORDER, "price": 2**63})),
    ("tif 'never'", lambda e: e.enter(**ORDER, tif="never")),
    ("instrument 4294967296", lambda e: e.enter(**ORDER, instrument=2**32)),
    ("account -1", lambda e: e.enter(**ORDER, account=-1)),
    ("time_ns -1", lambda e: e.enter(**ORDER, time_ns=-1)),
    ("time_ns 'x'", lambda e: e.enter(**ORDER, time_ns="x")),
    (
        "time_ns 4: expected 5",
        lambda e: (e.cancel(order_id=9, time_ns=5), e.cancel(order_id=9, time_ns=4)),
    ),
    ("order_id None", lambda e: e.cancel(order_id=None)),
    ("parameter 'tick'", lambda e: e.define(instrument=2, tick=1)),
    ("expected a parameter", lambda e: e.define(instrument=2)),
    ("state 'shut'", lambda e: e.set_state(instrument=1, state="shut")),
    ("commands: 1-dimensional", lambda e: e.submit([1, 2])),
    ("commands: 2-dimensional", lambda e: e.submit(np.zeros((2, 2), matchbox.COMMAND))),
    (
        "use matchbox.joined",
        lambda e: e.submit(np.concatenate([np.zeros(1, matchbox.COMMAND)] * 2)),
    ),
]


@pytest.mark.parametrize(("text", "call"), WRONG, ids=[text for text, _ in WRONG])
def test_what_is_wrong_is_named(
    engine: EngineOf, text: str, call: Callable[[EngineOf], Any]
) -> None:
    with pytest.raises(BadInput, match=text.replace("(", "\\(")):
        call(engine)
    assert engine.book(1) == ([], [])


def test_a_quantity_that_no_field_holds_is_refused_by_the_book(engine: EngineOf) -> None:
    report = engine.enter(**{**ORDER, "quantity": 10**30})[0]
    assert report["reason"] == Reason.INVALID_QUANTITY


def test_the_front_of_a_side() -> None:
    engine = Engine(orders=16, levels=16, instruments=2)
    assert engine.front(1, "buy") is None
    engine.enter(order_id=8, side="buy", price=-3, quantity=4)
    assert engine.front(1, Side.BUY) == (-3, 8, 4, 1)
    for instrument in (0, 3, 99):
        with pytest.raises(BadInput, match="instrument"):
            engine.front(instrument, "buy")


def test_limits_that_cannot_be(engine: EngineOf) -> None:
    for limits in ({"orders": 0}, {"levels": -1}, {"orders": "x"}, {"instruments": 1 << 30}):
        with pytest.raises(BadInput, match=next(iter(limits))):
            Engine(**limits)  # type: ignore[arg-type]
