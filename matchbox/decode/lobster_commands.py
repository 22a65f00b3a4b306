"""LOBSTER rows as commands that make our book do what the exchange's did. Plain Python.

    submit                   enter, GTC
    reduce                   reduce to what is left, followed per order
    delete                   cancel
    execute                  enter, IOC from the other side, of that quantity and price, own id
    execute hidden, cross    nothing: they touch no visible order
    halt                     state halt; quoting or trading resumes: state resume, if halted

A file shows the orders that are near the market while it lasts. Of older ones it may show the end
only, or the beginning late, when the market comes near. Ids are given out in arrival order, so one
can look ahead:

    seed "none"      enter what is announced, when it is
    seed "resting"   also enter, with the quantity that later leaves them, orders that are touched
                     without being announced: at the start, or before the first announced id that
                     is larger
    seed "all"       also enter at the start, all in id order, orders that are announced with an id
                     below the first announced one, and not again when they are announced
"""

from typing import NamedTuple

import numpy as np

from matchbox.constants import Action, CommandType, Side, Tif
from matchbox.decode.lobster import ABOUT_ORDERS, Event, Rows
from matchbox.errors import BadInput
from matchbox.schema import RECORD, joined

SEEDS = ("none", "resting", "all")
INSTRUMENT = 1
UNTOLD = -1


class Session(NamedTuple):
    records: np.ndarray  # RECORD[n]
    rows: np.ndarray  # i64[n]: the row that tells of each command; UNTOLD: none does
    ahead: np.ndarray  # bool[n]: an order from before the file, or before its row
    leaves: np.ndarray  # i64[rows]: what is left of a row's order after it


class Lives(NamedTuple):
    """Rows about orders, sorted by order and then by time: a stretch of them is an order's life."""

    rows: np.ndarray  # i64[k]: their places in the file
    starts: np.ndarray  # i64[orders]: where each stretch begins
    order_of: np.ndarray  # i64[k]: number of the stretch
    seeded: np.ndarray  # i64[orders]: what each had before the file; 0: it was announced first


def convert(rows: Rows, seed: str = "all") -> Session:
    """The commands of a message file.

    Args:
        rows: as `lobster.decode` gives them.
        seed: of `SEEDS`, above.
    Raises:
        BadInput: no such seed.
    """
    if seed not in SEEDS:
        raise BadInput(f"seed {seed!r}: expected one of {', '.join(SEEDS)}")
    lives = lives_in(rows)
    leaves = leaves_after(rows, lives)
    late = late_rows(rows, lives) if seed == "all" else np.empty(0, np.int64)
    older = enters(rows, late)
    older["time_ns"] = rows.time_ns[0]
    before, told = np.zeros(late.size, np.int64), late
    if seed != "none":
        seeds, before_seeds = seeds_of(rows, lives)
        older, before = joined(older, seeds), np.append(before, before_seeds)
        told = np.append(late, np.full(seeds.size, UNTOLD))
    by_id = np.argsort(older["order_id"], kind="stable")
    records, of_rows = commands(rows, leaves, late)
    # Even keys: before a row. Odd ones: the row itself.
    order = np.argsort(np.append(before[by_id] * 2, of_rows * 2 + 1), kind="stable")
    return Session(
        records=joined(older[by_id], records)[order],
        rows=np.append(told[by_id], of_rows)[order],
        ahead=order < older.size,
        leaves=leaves,
    )


def lives_in(rows: Rows) -> Lives:
    about = np.flatnonzero(np.isin(rows.type, ABOUT_ORDERS))
    about = about[np.argsort(rows.order_id[about], kind="stable")]
    first = np.diff(rows.order_id[about], prepend=-1) != 0
    starts, order_of = np.flatnonzero(first), np.cumsum(first) - 1
    announced = rows.type[about] == Event.SUBMIT
    # What leaves an order before it is announced must have been there before.
    announcements = np.cumsum(announced)
    unannounced = announcements == (announcements - announced)[starts][order_of]
    leaving = np.where(unannounced, rows.quantity[about], 0)
    return Lives(about, starts, order_of, sums(leaving, starts))


def sums(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """i64: the sum of each stretch."""
    running = np.append(0, np.cumsum(values))
    return running[np.append(starts[1:], values.size)] - running[starts]


def leaves_after(rows: Rows, lives: Lives) -> np.ndarray:
    """i64[rows]: what is left of a row's order after it, as the file tells; 0 if it is of none."""
    quantity = rows.quantity[lives.rows]
    change = np.where(rows.type[lives.rows] == Event.SUBMIT, quantity, -quantity)
    running = np.cumsum(change)
    before = (running - change)[lives.starts]
    leaves = np.zeros(rows.type.size, np.int64)
    leaves[lives.rows] = running - (before - lives.seeded)[lives.order_of]
    return np.maximum(leaves, 0)


def first_announced(rows: Rows) -> int:
    """The first id that the file announces: smaller ones are older than the file."""
    submits = rows.type == Event.SUBMIT
    return int(rows.order_id[np.argmax(submits)]) if submits.any() else -1


def late_rows(rows: Rows, lives: Lives) -> np.ndarray:
    """Rows that announce an order which is older than the file and was not touched before."""
    firsts = lives.rows[lives.starts]
    return firsts[
        (rows.type[firsts] == Event.SUBMIT) & (rows.order_id[firsts] < first_announced(rows))
    ]


def seeds_of(rows: Rows, lives: Lives) -> tuple[np.ndarray, np.ndarray]:
    """Orders touched before they are announced, if they ever are.

    RECORD[n], and i64[n]: the row to enter each before.
    """
    touched = lives.seeded > 0
    firsts = lives.rows[lives.starts[touched]]
    records = enters(rows, firsts)
    records["quantity"] = lives.seeded[touched]
    submits = np.flatnonzero(rows.type == Event.SUBMIT)
    largest = np.maximum.accumulate(rows.order_id[submits])
    larger = np.searchsorted(largest, rows.order_id[firsts], side="right")
    before = np.minimum(np.append(submits, rows.type.size)[larger], firsts)
    before[rows.order_id[firsts] <= first_announced(rows)] = 0
    records["time_ns"] = rows.time_ns[before]
    return records, before


def enters(rows: Rows, which: np.ndarray) -> np.ndarray:
    """RECORD: an order as each of these rows describes it."""
    records = np.zeros(which.size, RECORD)
    records["type"] = CommandType.ENTER
    records["instrument"] = INSTRUMENT
    records["time_ns"] = rows.time_ns[which]
    records["order_id"] = rows.order_id[which]
    records["side"] = np.where(rows.direction[which] == 1, Side.BUY, Side.SELL)
    records["price"] = rows.price[which]
    records["quantity"] = rows.quantity[which]
    return records


def commands(rows: Rows, leaves: np.ndarray, skip: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """RECORD[n] of all rows but `skip`, in order, and i64[n]: the row of each."""
    wanted = np.isin(rows.type, ABOUT_ORDERS)
    wanted[skip] = False
    halts = halt_actions(rows)
    wanted[list(halts)] = True
    which = np.flatnonzero(wanted)
    type = rows.type[which]
    records = enters(rows, which)
    executes = type == Event.EXECUTE
    records["kind_tif"][executes] = Tif.IOC << 4
    records["side"][executes] ^= Side.BUY ^ Side.SELL
    beyond = int(rows.order_id.max(initial=0)) + 1
    records["order_id"][executes] = beyond + np.arange(executes.sum())
    for event, code in ((Event.REDUCE, CommandType.REDUCE), (Event.DELETE, CommandType.CANCEL)):
        records["type"][type == event] = code
        for field in ("side", "price", "quantity"):
            records[field][type == event] = 0
    reduces = type == Event.REDUCE
    records["quantity"][reduces] = leaves[which[reduces]]
    for row, action in halts.items():
        records[np.searchsorted(which, row)] = state(int(rows.time_ns[row]), action)
    return records, which


def state(time_ns: int, action: Action) -> np.ndarray:
    record = np.zeros((), RECORD)
    record["type"], record["instrument"] = CommandType.STATE, INSTRUMENT
    record["parameter"], record["time_ns"] = action, time_ns
    return record


def halt_actions(rows: Rows) -> dict[int, Action]:
    """What the rows about a halt ask of an instrument that is open before them.

    We have no state in which orders enter but do not trade: quoting resumes trading.
    """
    actions, halted = {}, False
    for row in np.flatnonzero(rows.type == Event.HALT):
        halting = rows.price[row] == -1
        if halting != halted:
            actions[int(row)] = Action.HALT if halting else Action.RESUME
            halted = halting
    return actions
