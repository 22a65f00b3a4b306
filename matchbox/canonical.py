"""Reports as the canonical lines in which independent engines compare notes. Plain Python.

    0,seq,side,id,price,quantity      order accepted        3,seq,side,id,price,quantity   order
    replaced
    1,seq,price,quantity,resting,aggressor   trade          4,seq,id   cancel rejected
    2,seq,side,id,price               order canceled        5,seq,id   replace rejected

Sorted by (seq, first number), stable; seq counts commands from 0. The format of the public
matching-engine benchmark of flash1-dev. Orders are named by the id they were entered with.
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
    accepted = outputs[kinds == Kind.ACCEPTED]
    names = np.zeros(outputs.size + 1, np.uint64)
    names[accepted["report_sequence"]] = accepted["contra"]
    trade = number == 1
    name, other = outputs["contra"].copy(), np.zeros(outputs.size, np.uint64)
    name[trade] = names[outputs["reference"][trade]]
    other[trade] = names[outputs["contra"][trade]]
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
