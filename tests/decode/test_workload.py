"""Workload files: the mapping, message by message, and what such a file must be."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from matchbox.constants import CommandFlag, CommandType, Side, Tif
from matchbox.decode import workload
from matchbox.errors import BadInput

NEW, CANCEL, MODIFY = range(3)


def messages(*rows: tuple[int, ...]) -> np.ndarray:
    """type, side, ioc, quantity, order_id, price, reserved."""
    made = np.zeros(len(rows), workload.MESSAGE)
    names = ("type", "side", "ioc", "quantity", "order_id", "price", "reserved")
    for name, column in zip(names, zip(*rows, strict=True), strict=True):
        made[name] = column
    made["sequence"] = np.arange(len(rows))
    return made


def file_of(made: np.ndarray, magic: bytes = workload.MAGIC, version: int = 1) -> np.ndarray:
    header = np.array([(magic, version, made.size)], workload.HEADER)
    return np.frombuffer(header.tobytes() + made.tobytes(), np.uint8)


SAMPLE = messages(
    (NEW, 1, 0, 5, 10, 100, 1),
    (NEW, 0, 1, 7, 11, -2, 0),
    (CANCEL, 1, 0, 3, 10, 100, 0),
    (MODIFY, 1, 0, 9, 10, 101, 0),
)


def test_messages_become_commands() -> None:
    records, prefill = workload.decode(file_of(SAMPLE), "w")
    enter, ioc, cancel, replace = records
    assert prefill == 1
    assert (enter["type"], enter["side"], enter["kind_tif"]) == (CommandType.ENTER, Side.SELL, 0)
    assert (enter["order_id"], enter["price"], enter["quantity"]) == (10, 100, 5)
    assert (ioc["side"], ioc["kind_tif"], ioc["price"]) == (Side.BUY, Tif.IOC << 4, -2)
    assert (cancel["type"], cancel["order_id"]) == (CommandType.CANCEL, 10)
    assert (cancel["price"], cancel["quantity"], cancel["side"]) == (0, 0, 0)
    assert (replace["type"], replace["flags"]) == (CommandType.REPLACE, CommandFlag.REQUEUE)
    assert replace["order_id"] == replace["new_order_id"] == 10
    assert (replace["price"], replace["quantity"]) == (101, 9)
    assert (records["instrument"] == 1).all()


def test_record_i_is_message_i() -> None:
    made = SAMPLE.copy()
    made["sequence"] = [5, 6, 7, 1 << 40]
    records, _ = workload.decode(file_of(made), "w")
    assert records["time_ns"].tolist() == [5, 6, 7, 1 << 40]
    assert not records["account"].any()
    assert not records["command_sequence"].any()


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (file_of(SAMPLE)[:15], "truncated: 15 bytes, expected a header of 16"),
        (file_of(SAMPLE)[:-1], "truncated: ends at 175, expected 176 for 4 messages"),
        (np.append(file_of(SAMPLE), np.uint8(0)), "trailing bytes: ends at 177, expected 176"),
        (file_of(SAMPLE, b"200_WBEM"), "offset 0: magic b'200_WBEM', expected b'100_WBEM'"),
        (file_of(SAMPLE, version=2), "offset 8: version 2, expected 1"),
        (file_of(messages((3, 0, 0, 1, 1, 1, 0))), "message 0 at offset 16: type: expected 0 to 2"),
        (
            file_of(messages((0, 0, 0, 1, 1, 1, 0), (0, 2, 0, 1, 1, 1, 0))),
            "message 1 at offset 56: side: expected 0 to 1",
        ),
        (file_of(messages((0, 0, 2, 1, 1, 1, 0))), "message 0 at offset 16: ioc: expected 0 to 1"),
        (
            file_of(messages((0, 0, 0, 1, 1, 1, 0), (0, 0, 0, 1, 2, 1, 1))),
            "message 0 at offset 16: reserved: expected 1 on the first messages only",
        ),
    ],
)
def test_what_is_no_workload(data: np.ndarray, told: str) -> None:
    with pytest.raises(BadInput, match=f"^w: {told}"):
        workload.decode(data, "w")


def test_ferrox() -> None:
    records, prefill = workload.ferrox(100)
    assert prefill == 100
    assert records["order_id"].tolist() == list(range(1, 201))
    assert (records["side"] == np.repeat([Side.SELL, Side.BUY], 100)).all()
    assert records["price"][[0, 49, 50, 100, 199]].tolist() == [10000, 10049, 10000, 10000, 10049]
    assert (records["quantity"] == 10).all()


@pytest.mark.parametrize(
    ("name", "count", "prefill"),
    [("mix63_s7", 1_000_000, 10_000), ("cancel45_s7", 1_120_000, 120_000)],
)
def test_published_files(
    shared_data: Callable[[str], Path], name: str, count: int, prefill: int
) -> None:
    records, warm = workload.read(shared_data(f"workloads/{name}.bin.zst"))
    assert (records.size, warm) == (count, prefill)
    assert (records["time_ns"] == np.arange(count)).all()
