"""What independent engines agree on: the gate of the public benchmark and the scenarios of six
engines, through both books."""

from collections import Counter

import pytest

from matchbox.canonical import lines
from matchbox.embedded import Engine, EngineOf, ReferenceEngine
from tests.book.cases import (
    Case,
    Session,
    deep_sweep,
    gate,
    gate_records,
    left_out,
    parameters,
    scenarios,
)

BOTH = pytest.mark.parametrize("engine", [Engine, ReferenceEngine])
LIMITS = {"orders": 8192, "levels": 8192, "instruments": 2}

GATE, SCENARIOS = gate(), scenarios()
RUN = [scenario for scenario in SCENARIOS if not left_out(scenario)]

LEFT_OUT = {
    "FOK comes later": 8,
    "FOK_BUDGET comes later": 4,
    "display comes later": 1,
    "in_flight_mitigation comes later": 1,
    "market orders come later": 11,
    "not cross-checked": 19,
    "post_only comes later": 2,
    "stop orders come later": 11,
    "stop_limit orders come later": 13,
    "stp comes later": 2,
}
"""Scenarios that are not run, by reason. What comes later comes off this list."""


@BOTH
@pytest.mark.parametrize("case", parameters(GATE, "case"))
def test_gate(engine: type[EngineOf], case: Case) -> None:
    messages, expected = case["messages"], case["expected_reports"]
    if case["case"] == "deep_recursive_sweep_5000":  # given as a count only
        messages = deep_sweep(messages["count"] - 1)
    records = gate_records(messages)
    made = list(lines(engine(**LIMITS).outputs(records, 0, None), records["type"]))
    if isinstance(expected, dict):
        assert len(made) == expected["count"]
    else:
        assert made == expected


@BOTH
@pytest.mark.parametrize("scenario", parameters(RUN, "id"))
def test_scenario(engine: type[EngineOf], scenario: Case) -> None:
    session = Session(engine(**LIMITS))
    for index, command in enumerate(scenario["commands"]):
        session.run(index, command)
    assert session.trades == scenario["trades"]
    assert session.book() == scenario["book_after"]
    session.engine.check()


@pytest.mark.skipif(not GATE, reason="../shared/data/conformance is not on this machine")
def test_all_cases_are_run_or_left_out_for_a_reason() -> None:
    assert len(GATE) == 34
    assert Counter(filter(None, map(left_out, SCENARIOS))) == LEFT_OUT
