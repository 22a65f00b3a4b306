"""Reports as people and programs read them: a line of words, or a dict of names. Plain Python.

    human:     3 executed  buy  10 @ 100  order 1 x 2  instrument 1
    record:  {"report_sequence": 3, "reference": 1, …, "kind": "executed", …, "flags": ["last"]}

Codes become the names of `constants`, in lower case; a code without a name stays a number. Field
names and their order are those of the report's layout.
"""

from enum import IntEnum
from typing import Any

import numpy as np

from matchbox.constants import Action, InstrumentState, Kind, Parameter, Reason, ReportFlag, Side
from matchbox.schema import REPORT_LAYOUT

FIELDS = tuple(field.name for field in REPORT_LAYOUT.fields)

Name = str | int | None


def names(codes: type[IntEnum]) -> dict[int, str]:
    return {code.value: code.name.lower() for code in codes}


KINDS, SIDES, REASONS, FLAGS = names(Kind), names(Side), names(Reason), names(ReportFlag)
ACTIONS, PARAMETERS, STATES = names(Action), names(Parameter), names(InstrumentState)
FLAGS_KNOWN = sum(FLAGS)


def is_masked(kind: int, reason: int) -> bool:
    """Whether this is a reject as everybody sees it: the book always gives a reason."""
    return kind == Kind.REJECTED and reason == Reason.NONE


def has_side(kind: int, reason: int) -> bool:
    return kind not in (Kind.INSTRUMENT, Kind.STATE) and not is_masked(kind, reason)


def flag_names(flags: int) -> list[Name]:
    """Names of the bits that are set; unknown bits together as one number."""
    known: list[Name] = [name for bit, name in FLAGS.items() if flags & bit]
    unknown = flags & ~FLAGS_KNOWN
    return [*known, unknown] if unknown else known


def record(report: np.void) -> dict[str, Any]:
    """One REPORT item as plain Python values, ready for JSON. `side` is None where none applies."""
    values: dict[str, Any] = dict(zip(FIELDS, report.item(), strict=True))
    kind, side, reason = values["kind"], values["side"], values["reason"]
    values["kind"] = KINDS.get(kind, kind)
    values["side"] = SIDES.get(side, side) if has_side(kind, reason) else None
    values["reason"] = REASONS.get(reason, reason)
    values["flags"] = flag_names(values["flags"])
    return values


def human(report: np.void) -> str:
    """One REPORT item as one line."""
    value = dict(zip(FIELDS, report.item(), strict=True))
    kind, reason = value["kind"], value["reason"]
    start = f"{value['report_sequence']:>10} {KINDS.get(kind, f'kind {kind}'):<10}"
    if is_masked(kind, reason):
        return start.rstrip()
    details = [detail for detail in (subject(value), reason_name(kind, reason)) if detail]
    marks = [str(name) for name in flag_names(value["flags"] & ~ReportFlag.LAST)]
    return " ".join([start, "  ".join([*details, f"instrument {value['instrument']}", *marks])])


def subject(value: dict[str, int]) -> str:
    """What a report is about."""
    kind, contra, price = value["kind"], value["contra"], value["price"]
    if kind == Kind.STATE:
        return f"{STATES.get(price, price)}  by {ACTIONS.get(contra, contra)}"
    if kind == Kind.INSTRUMENT:
        return f"{PARAMETERS.get(contra, contra)} = {price}"
    side = SIDES.get(value["side"], f"side {value['side']}")
    parts = [f"{side:<4} {value['quantity']} @ {price}"]
    order = f"order {value['reference']}" if value["reference"] else ""
    if kind == Kind.EXECUTED:
        parts.append(f"{order} x {contra}")
    else:
        parts += [part for part in (order, f"id {contra}" if contra else "") if part]
    return "  ".join(parts)


def reason_name(kind: int, reason: int) -> str:
    return (
        ""
        if reason == Reason.NONE
        else str(REASONS.get(reason, f"reason {reason}")).replace("_", " ")
    )
