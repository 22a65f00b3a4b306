"""What independent engines agree on: the gate of the public benchmark, scenarios of six engines,
the workloads' hashes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from matchbox.canonical import lines, sha256
from matchbox.constants import CommandFlag, CommandType, Kind, Tif
from matchbox.decode import files, workload
from matchbox.embedded import Engine, EngineOf, ReferenceEngine
from matchbox.schema import RECORD

Shared = Callable[[str], Path]
BOTH = pytest.mark.parametrize("engine", [Engine, ReferenceEngine])
LIMITS = {"orders": 8192, "levels": 8192, "instruments": 2}
SIDES = {"B": "buy", "S": "sell"}


def gate_records(messages: list[dict[str, Any]]) -> np.ndarray:
    """The gate's messages as commands; a modification always loses its place."""
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


@BOTH
def test_gate(engine: type[EngineOf], shared_data: Shared) -> None:
    cases = json.loads(shared_data("conformance/flash1_gate.json").read_text())
    assert len(cases) == 34
    for case in cases:
        messages, expected = case["messages"], case["expected_reports"]
        if case["case"] == "deep_recursive_sweep_5000":  # given as a count only
            messages = deep_sweep(messages["count"] - 1)
        records = gate_records(messages)
        made = list(lines(engine(**LIMITS).outputs(records, 0, None), records["type"]))
        if isinstance(expected, dict):
            assert len(made) == expected["count"], case["case"]
        else:
            assert made == expected, case["case"]


def deep_sweep(count: int) -> list[dict[str, Any]]:
    """`count` asks, a tick apart, and one bid that takes them all."""
    message = {"type": "NEW", "ioc": False}
    asks = [{**message, "side": "S", "id": i, "px": 100 + i, "qty": 1} for i in range(count)]
    return [*asks, {**message, "side": "B", "id": count, "px": 100 + count, "qty": count}]


def unsupported(scenario: dict[str, Any]) -> str:
    """Why a scenario cannot be run yet, or ""."""
    if scenario["options"]:
        return "a venue's own option"
    for command in scenario["commands"]:
        if command["op"] == "replace" and "price" not in command and command["qty_delta"] > 0:
            return "a replace upwards keeps its place there, here it goes to the back"
        if command["op"] not in ("new", "cancel", "replace", "reduce", "reduce_by"):
            return f"{command['op']} comes later"
        if command.get("type", "limit") != "limit":
            return f"{command['type']} orders come later"
        if command.get("tif", "GTC") not in ("GTC", "IOC"):
            return f"{command['tif']} comes later"
        for key in ("aon", "display", "post_only", "stop", "in_flight_mitigation"):
            if key in command:
                return f"{key} comes later"
    return ""


class Session:
    """Runs a scenario's commands and keeps its trades as [command, resting, aggressor, price,
    quantity, left]."""

    def __init__(self, engine: EngineOf) -> None:
        self.engine, self.trades = engine, []  # type: ignore[var-annotated]
        self.accounts: dict[str, int] = {}
        self.names: dict[int, int] = {}  # reference -> order id
        self.leaves: dict[int, int] = {}  # reference -> leaves

    def run(self, index: int, command: dict[str, Any]) -> None:
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
                row = [index, self.names[reference], self.names[aggressor], int(report["price"])]
                self.trades.append([*row, quantity, self.leaves[reference]])


@BOTH
def test_scenarios(engine: type[EngineOf], shared_data: Shared) -> None:
    scenarios = json.loads(shared_data("conformance/scenarios.json").read_text())["scenarios"]
    run = 0
    for scenario in scenarios:
        if not scenario["cross_checked"] or unsupported(scenario):
            continue
        session = Session(engine(**LIMITS))
        for index, command in enumerate(scenario["commands"]):
            session.run(index, command)
        book = session.engine.book(1)
        assert session.trades == scenario["trades"], scenario["id"]
        after = {
            side: [
                [price, [list(order) for order in queue]] for price, queue in getattr(book, side)
            ]
            for side in ("bids", "asks")
        }
        assert after == scenario["book_after"], scenario["id"]
        run += 1
    assert run >= 50, f"only {run} scenarios were run"


WORKLOADS = {
    "mix63_s7": "4c5200e50c32bc26462f56342898517164a0e2675d96b8d099d42631f211f25f",
    "cancel45_s7": "86cd9d2f9f6a47f60cfb642b715b4ee7e120f43b15c9a561417e5700affc1684",
    "orders_normal_s23": "e9b2e3926854410b01a035aeb25dd05f1e597c233be8263de9eb49b6713d367e",
    "orders_flash-crash_s23": "cff8d3f94b709fc64a8b2058a6ca4fb6920364904796e46906895e362d2bb16b",
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_workload_reports(name: str, shared_data: Shared) -> None:
    records = files.read(shared_data(f"workloads/{name}.bin.zst"))
    outputs = Engine().outputs(records, 0, None)
    assert sha256(outputs, records["type"]) == WORKLOADS[name]


def test_ferrox_reports() -> None:
    records = workload.ferrox().records
    outputs = Engine().outputs(records, 0, None)
    assert int((outputs["kind"] == Kind.EXECUTED).sum()) == 638_451
    published = "b4dd24f6d59648e421ed72140d14bdbc9be5713f7b8d9fa57b5ff59dd995b585"
    assert sha256(outputs, records["type"]) == published
