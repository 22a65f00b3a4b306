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
    ("instrument 'x': expected a whole number", lambda e: e.book("x")),
    ("instrument -1", lambda e: e.book_digest(-1)),
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


@pytest.mark.parametrize("made", [Engine, ReferenceEngine])
@pytest.mark.parametrize(
    "limits",
    [{"orders": 0}, {"levels": -1}, {"orders": "x"}, {"levels": 2.0}, {"instruments": 1 << 30}],
)
def test_limits_that_cannot_be(made: type[Engine | ReferenceEngine], limits: Any) -> None:
    with pytest.raises(BadInput, match=next(iter(limits))):
        made(**limits)


def test_define_sets_all_or_nothing(engine: EngineOf) -> None:
    with pytest.raises(BadInput, match="value 'x'"):
        engine.define(instrument=2, price_scale=2, quantity_scale="x")  # type: ignore[arg-type]
    assert engine.report_sequence == 0
    made = engine.define(instrument=2, price_scale=2, quantity_scale=3)
    assert made["contra"].tolist() == [1, 2] and made["price"].tolist() == [2, 3]


def test_time_is_that_of_the_command_before(engine: EngineOf) -> None:
    engine.cancel(order_id=1, time_ns=5)
    engine.cancel(order_id=1)
    assert engine.time_ns == 5
    records = np.zeros(2, matchbox.RECORD)
    records["time_ns"] = [6, 9]
    engine.submit(records)
    with pytest.raises(BadInput, match="time_ns 8: expected 9"):
        engine.cancel(order_id=1, time_ns=8)


def test_a_batch_of_any_size_is_the_same_commands() -> None:
    """More reports than the outbox holds: from many commands, and from one."""
    commands = np.zeros(10_001, matchbox.COMMAND)
    commands["type"], commands["instrument"], commands["quantity"] = 1, 1, 1
    commands["order_id"], commands["side"] = range(10_001), Side.SELL
    commands["side"][-1], commands["quantity"][-1] = Side.BUY, 10_000
    whole, parts = (Engine(orders=10_000, levels=1, instruments=1) for _ in range(2))
    made = whole.submit(commands)
    pieces = [parts.submit(commands[start : start + 7]) for start in range(0, 10_001, 7)]
    assert made.size == 20_001 and made.tobytes() == np.concatenate(pieces).tobytes()
    assert made["report_sequence"].tolist() == list(range(1, 20_002))
    assert whole.digest == parts.digest


def test_digests_name_what_they_say(engine: EngineOf) -> None:
    empty = engine.book_digest(1), engine.book_digest(2), engine.digest
    engine.cancel(order_id=9)
    assert (engine.book_digest(1), engine.book_digest(2)) == empty[:2]
    assert engine.digest != empty[2], "a report was made"
    first = engine.enter(**ORDER)
    named = engine.book_digest(1), engine.digest
    engine.replace(order_id=1, new_order_id=2, price=1, quantity=1)
    assert engine.book_digest(1) == named[0], "the client's id is not public"
    assert engine.digest != named[1]
    engine.enter(**ORDER)
    queue = engine.book_digest(1)
    engine.replace(order_id=2, price=1, quantity=1, requeue=True)
    assert engine.book_digest(1) != queue, "the order within a level is"
    assert first[0]["reference"] == 2 and engine.book_digest(2) == empty[1]
