"""Reports in words."""

import json

import numpy as np
import pytest

from matchbox.constants import Action, InstrumentState, Kind, Parameter, Reason, ReportFlag, Side
from matchbox.printer import human, record
from matchbox.schema import REPORT


def report(**fields: int) -> np.void:
    made = np.zeros(1, REPORT)
    values = {"report_sequence": 12, "instrument": 1, "price": 100, "quantity": 10, **fields}
    for name, value in values.items():
        made[name] = value
    return made[0]


REJECTED = {"kind": Kind.REJECTED, "contra": 7}


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (
            {"kind": Kind.ACCEPTED, "reference": 12, "contra": 7},
            "        12 accepted   buy  10 @ 100  order 12  id 7  instrument 1",
        ),
        (
            {"kind": Kind.ACCEPTED, "reference": 12, "flags": ReportFlag.LAST},
            "        12 accepted   buy  10 @ 100  order 12  instrument 1",
        ),
        (
            {"kind": Kind.EXECUTED, "side": Side.SELL, "reference": 3, "contra": 11},
            "        12 executed   sell 10 @ 100  order 3 x 11  instrument 1",
        ),
        (
            {"kind": Kind.CANCELED, "reference": 3, "contra": 7, "reason": Reason.USER},
            "        12 canceled   buy  10 @ 100  order 3  id 7  user  instrument 1",
        ),
        (
            {"kind": Kind.REPLACED, "reference": 3, "contra": 8, "flags": 5, "price": -4},
            "        12 replaced   buy  10 @ -4  order 3  id 8  instrument 1  requeued",
        ),
        (
            REJECTED | {"reason": Reason.UNKNOWN_ORDER},
            "        12 rejected   buy  10 @ 100  id 7  unknown order  instrument 1",
        ),
        ({"kind": Kind.REJECTED, "price": 0, "instrument": 0}, "        12 rejected"),
        (
            {"kind": Kind.STATE, "contra": Action.HALT, "price": InstrumentState.HALTED},
            "        12 state      halted  by halt  instrument 1",
        ),
        (
            {"kind": Kind.INSTRUMENT, "contra": Parameter.PRICE_SCALE, "price": 8},
            "        12 instrument price_scale = 8  instrument 1",
        ),
        (
            {"kind": 77, "side": 9, "reason": 250, "flags": 0xF0},
            "        12 kind 77    side 9 10 @ 100  reason 250  instrument 1  240",
        ),
    ],
)
def test_line(fields: dict[str, int], line: str) -> None:
    assert human(report(**fields)) == line


def test_record() -> None:
    made = record(report(kind=Kind.REPLACED, reference=3, contra=8, reason=Reason.NONE, flags=5))
    assert made == {
        "report_sequence": 12,
        "reference": 3,
        "contra": 8,
        "price": 100,
        "quantity": 10,
        "instrument": 1,
        "kind": "replaced",
        "side": "buy",
        "reason": "none",
        "flags": ["last", "requeued"],
    }
    assert tuple(made) == REPORT.names
    assert json.loads(json.dumps(made)) == made


def test_record_of_unknown_codes() -> None:
    made = record(report(kind=77, side=9, reason=250, flags=0x81))
    assert (made["kind"], made["side"], made["reason"]) == (77, 9, 250)
    assert made["flags"] == ["last", 0x80]


@pytest.mark.parametrize(
    ("kind", "reason", "side"),
    [
        (Kind.REJECTED, Reason.NONE, None),  # masked
        (Kind.REJECTED, Reason.UNKNOWN_ORDER, "buy"),
        (Kind.STATE, Reason.NONE, None),
        (Kind.INSTRUMENT, Reason.NONE, None),
    ],
)
def test_side_where_there_is_one(kind: Kind, reason: Reason, side: str | None) -> None:
    assert record(report(kind=kind, reason=reason))["side"] == side


def test_extreme_values_stay_exact() -> None:
    made = record(report(kind=Kind.EXECUTED, price=-(1 << 63), contra=(1 << 64) - 1))
    assert json.loads(json.dumps(made))["price"] == -(1 << 63)
    assert json.loads(json.dumps(made))["contra"] == (1 << 64) - 1
