"""LOBSTER message files: CSV rows of NASDAQ order flow as columns of integers. Plain Python.

    34200.004241176,1,16113575,18,5853300,1

    seconds, type (`Event`), order id, quantity, price x 10^4, direction of the resting order

Source: LOBSTER's "Sample Files Readme", 1 Sept 2013. A time is exact: nanoseconds since midnight by
the exchange's clock, on the day in the file's name, as if that clock showed UTC. It never goes
back: a row whose time does has the time before it, as if we had stamped it.
"""

import datetime
import os
import re
from enum import IntEnum
from pathlib import PurePath
from typing import NamedTuple

import numpy as np

from matchbox.decode.columns import Column, Table, integers, without_blank_end
from matchbox.decode.contents import Progress, load
from matchbox.errors import BadInput

FIELDS = ("time", "type", "order id", "size", "price", "direction")
NANOSECOND_DIGITS = 9
NS_PER_S = 10**NANOSECOND_DIGITS
SECONDS_DIGITS_MAX = 9
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
EPOCH = datetime.date(1970, 1, 1)
DAY_NS = 86_400 * NS_PER_S
BLOCK_BYTES = 1 << 23


class Event(IntEnum):
    """Second column."""

    SUBMIT = 1  # a new limit order
    REDUCE = 2  # a part of an order is canceled
    DELETE = 3  # an order is canceled
    EXECUTE = 4  # a visible order is executed
    EXECUTE_HIDDEN = 5
    CROSS = 6
    HALT = 7  # price -1: halt; 0: quoting resumes; 1: trading resumes


ABOUT_ORDERS = (Event.SUBMIT, Event.REDUCE, Event.DELETE, Event.EXECUTE)


class Rows(NamedTuple):
    """Row i is line i + 1 of the file."""

    time_ns: np.ndarray  # u64[n], since 1970, never decreasing
    type: np.ndarray  # u8[n], `Event`
    order_id: np.ndarray  # i64[n]
    quantity: np.ndarray  # i64[n]
    price: np.ndarray  # i64[n], ticks of 10^-4
    direction: np.ndarray  # i8[n]: 1 buy, -1 sell; of the resting order


def read(path: str | os.PathLike[str], date: str | None = None) -> Rows:
    """A message file, packed or not. Raises BadInput as `decode` and `contents.load` do."""
    name = os.fspath(path)
    return decode(load(path), name, midnight_ns(name, date))


def midnight_ns(name: str, date: str | None = None) -> int:
    """Start of a file's day: of `date`, else of the date in its name, else 1970-01-01.

    Raises BadInput: no date that is one.
    """
    found = DATE.search(PurePath(name).name)
    text = date or (found[0] if found else EPOCH.isoformat())
    try:
        days = (datetime.date.fromisoformat(text) - EPOCH).days
    except ValueError:
        raise BadInput(f"{name}: date {text!r}: expected YYYY-MM-DD") from None
    if days < 0:
        raise BadInput(f"{name}: date {text}: expected 1970-01-01 or later")
    return days * DAY_NS


def decode(
    data: np.ndarray, name: str, midnight: int = 0, progress: Progress | None = None
) -> Rows:
    """The rows of a message file.

    Args:
        data: u8[size], the whole file.
        name: of the file, for errors.
        midnight: nanoseconds from 1970 to the start of its day.
        progress: called with (bytes done, bytes in all).
    Raises:
        BadInput: a row that is none; names line, field and what was expected.
    """
    data = without_blank_end(data)
    if not data.size:
        raise BadInput(f"{name}: has no rows")
    blocks, line, start = [], 1, 0
    while start < data.size:
        end = end_of_block(data, start)
        table = Table(data[start:end], len(FIELDS), name, line)
        blocks.append(decode_block(table))
        line += table.count
        start = end
        if progress:
            progress(end, data.size)
    rows = Rows(*map(np.concatenate, zip(*blocks, strict=True)))
    time_ns = np.maximum.accumulate(rows.time_ns.astype(np.uint64) + np.uint64(midnight))
    return rows._replace(time_ns=time_ns)


def end_of_block(data: np.ndarray, start: int) -> int:
    """Where a block of whole lines ends."""
    end = start + BLOCK_BYTES
    while end < data.size:
        breaks = np.flatnonzero(data[start:end] == ord("\n"))
        if breaks.size:
            return start + int(breaks[-1]) + 1
        end += BLOCK_BYTES
    return data.size


def decode_block(table: Table) -> Rows:
    time, type, order_id, quantity, price, direction = (
        nanoseconds(table, 0),
        *(integers(table, column) for column in range(1, len(FIELDS))),
    )
    about_order = np.isin(type.values, ABOUT_ORDERS)
    halt = type.values == Event.HALT
    table.require(FIELDS[0], time.valid, "seconds after midnight like 34200.004241176")
    table.require(FIELDS[1], type.valid & np.isin(type.values, list(Event)), "1 to 7")
    table.require(FIELDS[2], order_id.valid & (order_id.values >= 0), "an integer from 0")
    table.require(
        FIELDS[3], quantity.valid & ((quantity.values >= 1) | ~about_order), "an integer from 1"
    )
    table.require(FIELDS[4], price.valid, "an integer")
    table.require(
        FIELDS[4], price.valid & ~halt | np.isin(price.values, (-1, 0, 1)), "-1, 0 or 1 in a halt"
    )
    side = np.isin(direction.values, (1, -1))
    table.require(FIELDS[5], direction.valid & (side | ~about_order), "1 or -1")
    table.verify()
    return Rows(
        time.values,
        type.values.astype(np.uint8),
        order_id.values,
        quantity.values,
        price.values,
        direction.values.astype(np.int8),
    )


def nanoseconds(table: Table, column: int) -> Column:
    """A column of decimal seconds. Digits beyond the ninth are dropped."""
    starts, ends = table.cells(column)
    dots = table.first_in_cells(ord("."), starts, ends)
    whole = integers(table, column, ends=dots)
    has_fraction = dots < ends
    fraction_starts = np.where(has_fraction, dots + 1, ends)
    fraction_ends = np.minimum(ends, fraction_starts + NANOSECOND_DIGITS)
    fraction = integers(table, column, starts=fraction_starts, ends=fraction_ends)
    beyond = integers(table, column, starts=fraction_ends)
    digits = fraction_ends - fraction_starts
    scale = 10 ** (NANOSECOND_DIGITS - np.clip(digits, 0, NANOSECOND_DIGITS))
    unsigned = (table.data[starts] != ord("-")) & (table.data[fraction_starts] != ord("-"))
    valid = (
        whole.valid
        & unsigned
        & (dots - starts <= SECONDS_DIGITS_MAX)
        & (fraction.valid | ~has_fraction)
        & (beyond.valid | (fraction_ends == ends))
    )
    return Column(
        whole.values * NS_PER_S + np.where(has_fraction, fraction.values * scale, 0), valid
    )
