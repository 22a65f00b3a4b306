"""Cases with known answers from `../shared/data/conformance`, as commands. A newcomer's map:
`gate` and `scenarios` read them, `gate_records` and `Session` run them, `left_out` says which of
them this engine does not run, and why.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from matchbox.constants import CommandFlag, CommandType, Kind, Tif
from matchbox.embedded import EngineOf
from matchbox.schema import RECORD

CONFORMANCE = Path(__file__).parents[3] / "shared" / "data" / "conformance"
SIDES = {"B": "buy", "S": "sell"}

Case = dict[str, Any]


def gate() -> list[Case]:
    """The 34 cases of the public benchmark's gate; none where they are absent."""
    path = CONFORMANCE / "flash1_gate.json"
    return json.loads(path.read_text()) if path.exists() else []


def scenarios() -> list[Case]:
    """Scenarios of six engines' own tests; none where they are absent."""
    path = CONFORMANCE / "scenarios.json"
    return json.loads(path.read_text())["scenarios"] if path.exists() else []


def parameters(cases: list[Case], name: str) -> list[Any]:
    """One test a case, named by it; one that is skipped if there are none."""
    if cases:
        return [pytest.param(case, id=case[name]) for case in cases]
    absent = pytest.mark.skip(reason="../shared/data/conformance is not on this machine")
    return [pytest.param(None, id="absent", marks=absent)]


def gate_records(messages: list[Case]) -> np.ndarray:
    """Messages of the gate as RECORD[n]; a modification always loses its place."""
    records = np.zeros(len(messages), RECORD)
    for record, message in zip(records, messages, strict=True):
        record["instrument"], record["order_id"] = 1, message["id"]
        record["price"], record["quantity"] = message["px"], message["qty"]
        match message["type"]:
            case "NEW":
                record["type"], record["side"] = CommandType.ENTER, message["side"] == "S"
                record["kind_tif"] = (Tif.IOC << 4) * message["ioc"]
            case "CANCEL":
                record["type"], record["price"], record["quantity"] = CommandType.CANCEL, 0, 0
            case "MODIFY":
                record["type"], record["flags"] = CommandType.REPLACE, CommandFlag.REQUEUE
                record["new_order_id"] = message["id"]
    return records


def deep_sweep(count: int) -> list[Case]:
    """`count` asks, a tick apart, and one bid that takes them all."""
    message = {"type": "NEW", "ioc": False}
    asks = [{**message, "side": "S", "id": i, "px": 100 + i, "qty": 1} for i in range(count)]
    return [*asks, {**message, "side": "B", "id": count, "px": 100 + count, "qty": count}]


MOOT = {"stop_order", "stop_rule"}
"""Options about stop orders, in scenarios that may have none."""


def left_out(scenario: Case) -> str:
    """Why a scenario is not run, or ""."""
    if not scenario["cross_checked"]:
        return "not cross-checked"
    for command in scenario["commands"]:
        if command["op"] not in ("new", "cancel", "replace", "reduce", "reduce_by"):
            return f"{command['op']} comes later"
        if command.get("type", "limit") != "limit":
            return f"{command['type']} orders come later"
        if command.get("tif", "GTC") not in ("GTC", "IOC"):
            return f"{command['tif']} comes later"
        for key in ("aon", "display", "post_only", "stop", "in_flight_mitigation"):
            if key in command:
                return f"{key} comes later"
    for option in scenario["options"]:
        if option not in MOOT:
            return f"{option} comes later"
    return ""


class Session:
    """Runs a scenario's commands and keeps its trades as [command, resting, aggressor, price,
    quantity, left]."""

    def __init__(self, engine: EngineOf) -> None:
        self.engine = engine
        self.trades: list[list[int]] = []
        self.accounts: dict[str, int] = {}
        self.names: dict[int, int] = {}  # reference -> order id
        self.leaves: dict[int, int] = {}  # reference -> leaves

    def run(self, index: int, command: Case) -> None:
        who = {
            "order_id": command["id"],
            "account": self.accounts.setdefault(command.get("owner", ""), len(self.accounts)),
        }
        row = next((o for _, queue in self.resting() for o in queue if o[0] == command["id"]), None)
        match command["op"]:
            case "new":
                reports = self.engine.enter(
                    **who,
                    side=SIDES[command["side"]],
                    price=command["price"],
                    quantity=command["qty"],
                    tif=command.get("tif", "GTC"),
                )
            case "cancel":
                reports = self.engine.cancel(**who)
            case "reduce":
                reports = self.engine.reduce(**who, quantity=command["qty"])
            case "reduce_by":
                left = max(0, row[1] - command["qty"]) if row else 0
                reports = self.engine.reduce(**who, quantity=left)
            case "replace":
                price = next((p for p, q in self.resting() if row in q), 0)
                left = row[1] if row else 1
                quantity = command.get(
                    "open_qty", command.get("qty", left + command.get("qty_delta", 0))
                )
                if quantity <= 0:  # nothing is to be left
                    reports = self.engine.cancel(**who)
                else:
                    reports = self.engine.replace(
                        **who, price=command.get("price", price), quantity=quantity
                    )
        for report in reports:
            self.note(index, report)

    def resting(self) -> list[Any]:
        book = self.engine.book(1)
        return [*book.bids, *book.asks]

    def note(self, index: int, report: np.void) -> None:
        reference = int(report["reference"])
        match report["kind"]:
            case Kind.ACCEPTED | Kind.REPLACED:
                self.names[reference] = int(report["contra"])
                self.leaves[reference] = int(report["quantity"])
            case Kind.RESTATED:
                self.leaves[reference] = int(report["quantity"])
            case Kind.EXECUTED:
                quantity, aggressor = int(report["quantity"]), int(report["contra"])
                self.leaves[reference] -= quantity
                self.leaves[aggressor] -= quantity
                row = [index, self.names[reference], self.names[aggressor], int(report["price"])]
                self.trades.append([*row, quantity, self.leaves[reference]])

    def book(self) -> dict[str, Any]:
        """As scenarios give it."""
        book = self.engine.book(1)
        return {
            side: [
                [price, [list(order) for order in queue]] for price, queue in getattr(book, side)
            ]
            for side in ("bids", "asks")
        }
