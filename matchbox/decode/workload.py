"""Workload files: the streams that public matching-engine benchmarks exchange, as commands. Plain
Python.

    header   16 bytes   u64 magic, u32 version, u32 count
    message  40 bytes   MESSAGE below; `reserved & 1` marks a prefill message: fed, not timed

A new order becomes `enter` (ioc: IOC), a cancel `cancel`, a modification `replace` under the same
id with REQUEUE: it always loses its place. Record i is message i. `time_ns` is the message's
`sequence`, a count and no clock: such streams have none, and reports that quote the sequence can be
written from the records alone.
"""

import os
from typing import NamedTuple

import numpy as np

from matchbox.constants import CommandFlag, CommandType, Side, Tif
from matchbox.decode.contents import Progress, load
from matchbox.errors import BadInput
from matchbox.schema import RECORD

MAGIC = b"100_WBEM"
VERSION = 1

HEADER = np.dtype([("magic", "S8"), ("version", "<u4"), ("count", "<u4")])
MESSAGE = np.dtype(
    [
        ("type", "u1"),  # index in COMMAND_TYPES
        ("side", "u1"),
        ("ioc", "u1"),
        ("pad", "u1"),
        ("quantity", "<u4"),
        ("sequence", "<u8"),
        ("order_id", "<u8"),
        ("price", "<i8"),
        ("reserved", "<i8"),
    ]
)
COMMAND_TYPES = (CommandType.ENTER, CommandType.CANCEL, CommandType.REPLACE)
PREFILL = 1  # bit of `reserved`

assert HEADER.itemsize == 16 and MESSAGE.itemsize == 40


class Workload(NamedTuple):
    records: np.ndarray  # RECORD[n]
    prefill: int  # the first so many are fed before any timing


def read(path: str | os.PathLike[str]) -> Workload:
    """A workload file, packed or not. Raises BadInput as `decode` and `contents.load` do."""
    return decode(load(path), os.fspath(path))


def decode(data: np.ndarray, name: str, progress: Progress | None = None) -> Workload:
    """The commands of a workload file.

    Args:
        data: u8[size], the whole file.
        name: of the source, for errors.
        progress: called with (bytes done, bytes in all).
    Raises:
        BadInput: bad magic, version, size or message; says where and what was expected.
    """
    messages = body(data, name)
    check(messages, name)
    marked = messages["reserved"] & PREFILL != 0
    prefill = int(marked.sum())
    if not marked[:prefill].all():
        message = int(np.argmin(marked))
        raise bad_message(name, message, "reserved", "1 on the first messages only")
    records = np.zeros(messages.size, RECORD)
    cancels = messages["type"] == COMMAND_TYPES.index(CommandType.CANCEL)
    records["type"] = np.array(COMMAND_TYPES, np.uint8)[messages["type"]]
    records["instrument"] = 1
    records["time_ns"] = messages["sequence"]
    for field in ("order_id", "price", "quantity"):
        records[field] = messages[field]
    records["price"][cancels] = records["quantity"][cancels] = 0
    enters = records["type"] == CommandType.ENTER
    records["side"][enters] = messages["side"][enters]
    records["kind_tif"][enters & (messages["ioc"] == 1)] = Tif.IOC << 4
    replaces = records["type"] == CommandType.REPLACE
    records["flags"][replaces] = CommandFlag.REQUEUE
    records["new_order_id"][replaces] = messages["order_id"][replaces]
    if progress:
        progress(data.size, data.size)
    return Workload(records, prefill)


def body(data: np.ndarray, name: str) -> np.ndarray:
    """MESSAGE[n]: what stands behind a header that fits."""
    if data.size < HEADER.itemsize:
        raise BadInput(
            f"{name}: truncated: {data.size} bytes, expected a header of {HEADER.itemsize}"
        )
    header = data[: HEADER.itemsize].view(HEADER)[0]
    if header["magic"] != MAGIC:
        raise BadInput(f"{name}: offset 0: magic {bytes(header['magic'])!r}, expected {MAGIC!r}")
    if header["version"] != VERSION:
        raise BadInput(f"{name}: offset 8: version {header['version']}, expected {VERSION}")
    expected = HEADER.itemsize + int(header["count"]) * MESSAGE.itemsize
    if data.size != expected:
        problem = "truncated" if data.size < expected else "trailing bytes"
        raise BadInput(
            f"{name}: {problem}: ends at {data.size}, expected {expected} "
            f"for {header['count']} messages"
        )
    return data[HEADER.itemsize :].view(MESSAGE)


def check(messages: np.ndarray, name: str) -> None:
    for field, largest in (("type", len(COMMAND_TYPES) - 1), ("side", max(Side)), ("ioc", 1)):
        beyond = messages[field] > largest
        if beyond.any():
            raise bad_message(name, int(np.argmax(beyond)), field, f"0 to {largest}")


def bad_message(name: str, message: int, field: str, expected: str) -> BadInput:
    offset = HEADER.itemsize + message * MESSAGE.itemsize
    return BadInput(f"{name}: message {message} at offset {offset}: {field}: expected {expected}")


def ferrox(count: int = 1_000_000) -> Workload:
    """Ferrox's own benchmark: `count` asks over 50 prices as prefill, then as many bids there.

    Source: the workload that the Ferrox engine publishes its rate for. Ids run from 1: the
    published SHA-256 of its reports says so.
    """
    records = np.zeros(2 * count, RECORD)
    index = np.arange(2 * count)
    records["type"] = CommandType.ENTER
    records["instrument"] = 1
    records["time_ns"] = index
    records["order_id"] = index + 1
    records["side"] = np.where(index < count, Side.SELL, Side.BUY)
    records["price"] = 10_000 + index % count % 50
    records["quantity"] = 10
    return Workload(records, count)
