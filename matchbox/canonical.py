"""Reports as the canonical lines in which independent engines compare notes. Plain Python.

    0,seq,side,id,price,quantity             order accepted
    1,seq,price,quantity,resting,aggressor   trade
    2,seq,side,id,price                      order canceled
    3,seq,side,id,price,quantity             order replaced
    4,seq,id                                 cancel rejected
    5,seq,id                                 replace rejected

Sorted by (seq, first number), stable; seq counts commands from 0. The format of the public
matching-engine benchmark of flash1-dev. A trade names its orders by the ids that they had then.
"""

import hashlib
from collections.abc import Iterator

import numpy as np

from matchbox.constants import CommandType, Kind
from matchbox.errors import BadInput

CHUNK = 1 << 16
LINES = (
    "0,{seq},{side},{id},{price},{quantity}",
    "1,{seq},{price},{quantity},{id},{other}",
    "2,{seq},{side},{id},{price}",
    "3,{seq},{side},{id},{price},{quantity}",
    "4,{seq},{id}",
    "5,{seq},{id}",
)
NUMBERS = {Kind.ACCEPTED: 0, Kind.EXECUTED: 1, Kind.CANCELED: 2, Kind.REPLACED: 3}


def lines(outputs: np.ndarray, types: np.ndarray) -> Iterator[str]:
    """Lines of OUTPUT[m], the reports of a whole session from report_sequence 1 on.

    types: u1[n], the `CommandType` of command n + 1. Raises BadInput for a report that has no line.
    """
    kinds, seq = outputs["kind"], outputs["command"].astype(np.int64) - 1
    number = np.full(outputs.size, -1)
    for kind, line in NUMBERS.items():
        number[kinds == kind] = line
    number[(kinds == Kind.REJECTED) & (types[seq] == CommandType.CANCEL)] = 4
    number[(kinds == Kind.REJECTED) & (types[seq] == CommandType.REPLACE)] = 5
    if (number < 0).any():
        first = outputs[number < 0][0]
        raise BadInput(
            f"report {first['report_sequence']}: kind {first['kind']} has no canonical line"
        )
    name, other = outputs["contra"].copy(), np.zeros(outputs.size, np.uint64)
    trade = number == 1
    name[trade], other[trade] = traded_ids(outputs, trade)
    order = np.lexsort((number, seq))
    for start in range(0, order.size, CHUNK):
        part = order[start : start + CHUNK]
        columns = (
            number[part],
            seq[part],
            outputs["side"][part],
            name[part],
            other[part],
            outputs["price"][part],
            outputs["quantity"][part],
        )
        for line, s, side, i, o, price, quantity in zip(
            *(c.tolist() for c in columns), strict=True
        ):
            yield LINES[line].format(
                seq=s, side=side, id=i, other=o, price=price, quantity=quantity
            )


def traded_ids(outputs: np.ndarray, trade: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ids of the resting orders and of the aggressors in the reports that the mask `trade` marks.

    A reference is for life, an id until the next replace: the newest report before the trade that
    gave the order an id tells it.
    """
    naming = outputs[np.isin(outputs["kind"], [Kind.ACCEPTED, Kind.REPLACED])]
    keys = key(naming["reference"], naming)
    order = np.argsort(keys)
    keys, ids = keys[order], naming["contra"][order]

    def ids_of(references: np.ndarray) -> np.ndarray:
        return ids[np.searchsorted(keys, key(references, trades), side="right") - 1]

    trades = outputs[trade]
    return ids_of(trades["reference"]), ids_of(trades["contra"])


def key(references: np.ndarray, reports: np.ndarray) -> np.ndarray:
    """Sorts by order, then time. Sessions have fewer than 2^32 reports."""
    return references << np.uint64(32) | reports["report_sequence"]


def sha256(outputs: np.ndarray, types: np.ndarray) -> str:
    """Of the lines, joined by newlines without a final one. 64 hex digits."""
    summary, first = hashlib.sha256(), True
    batch: list[str] = []
    for line in lines(outputs, types):
        batch.append(line)
        if len(batch) == CHUNK:
            summary.update(("" if first else "\n").encode() + "\n".join(batch).encode())
            batch, first = [], False
    if batch:
        summary.update(("" if first else "\n").encode() + "\n".join(batch).encode())
    return summary.hexdigest()
