"""What control and metrics see of the connection table, at any time. Plain Python.

It is a picture of cells that three threads write: each is right by itself.
"""

from typing import NamedTuple

import numpy as np

from matchbox.connections import (
    ACCOUNT,
    BACKLOG,
    CLOSED,
    DESCRIPTOR,
    DRAINED,
    END,
    ENDED,
    LINE_WORDS,
    LOGIN,
    OPENED,
    REASON,
    START,
    Connections,
    DecodeCounter,
    Ending,
    OwnCounter,
)


class Status(NamedTuple):
    """One row of the table, as control may see it at any time."""

    slot: int
    login: int
    account: int
    descriptor: int  # -1 once closed
    backlog: int  # bytes of reports waiting in the out buffer
    ending: Ending  # NONE while it lives
    drained: bool  # its input has ended, and it was sent every report
    undecoded: int  # bytes that were read and wait; for sure only when no decoder runs


def statuses(connections: Connections) -> list[Status]:
    """Every slot that was ever used, with its newest connection."""
    rows = []
    for slot in np.flatnonzero(connections.control[int(OPENED) :: LINE_WORDS]):
        control, intake, endings, progress = (
            array[slot * LINE_WORDS : (slot + 1) * LINE_WORDS]
            for array in (
                connections.control,
                connections.intake,
                connections.endings,
                connections.progress,
            )
        )
        login = int(control[int(OPENED)])
        ended = int(endings[int(ENDED)]) == login
        closed = int(endings[int(CLOSED)]) == login
        rows.append(
            Status(
                int(slot),
                login,
                int(control[int(ACCOUNT)]),
                -1 if closed else int(control[int(DESCRIPTOR)]),
                int(progress[int(BACKLOG)]),
                Ending(int(endings[int(REASON)])) if ended else Ending.NONE,
                int(progress[int(DRAINED)]) == login,
                int(intake[int(END)]) - int(intake[int(START)])
                if int(intake[int(LOGIN)]) == login
                else 0,
            )
        )
    return rows


def open_descriptors(connections: Connections) -> list[int]:
    """Descriptors that the data plane still holds."""
    return [status.descriptor for status in statuses(connections) if status.descriptor >= 0]


def counters(connections: Connections) -> dict[str, int]:
    """Name to value; readable while the data plane runs."""
    decode, own = connections.decode_counters, connections.own_counters
    values = {c.name.lower(): int(decode[c]) for c in DecodeCounter if c != DecodeCounter.CLOSED}
    for ending in Ending:
        if ending != Ending.NONE:
            values[f"closed_{ending.name.lower()}"] = int(decode[DecodeCounter.CLOSED + ending])
    return values | {f"own_{c.name.lower()}": int(own[c]) for c in OwnCounter}
