"""Tables of integers in text, a column at a time. Plain Python.

Separators of a block are found at once; a column is then two arrays of places, and its numbers are
made digit by digit for all rows together: a few nanoseconds a digit and row, with exact 64-bit
integers.
"""

from typing import NamedTuple

import numpy as np

from matchbox.errors import BadInput

DIGITS_MAX = 18  # any such number is an i64
COMMA, NEWLINE, RETURN, MINUS, ZERO = b",\n\r-0"


class Column(NamedTuple):
    values: np.ndarray  # i64[n]
    valid: np.ndarray  # bool[n]; where False the value means nothing


def without_blank_end(data: np.ndarray) -> np.ndarray:
    """Text without the line breaks at its end."""
    size = data.size
    while size and data[size - 1] in (NEWLINE, RETURN):
        size -= 1
    return data[:size]


class Table:
    """Lines of `width` fields separated by commas.

    Args:
        data: u8[size > 0]: whole lines, ended by LF or CRLF, the last one perhaps not.
        width: fields a line.
        name: of the file, for errors.
        line: number of the first line.
    Attributes:
        data: the lines, LF after the last.
        count: lines.
    Raises:
        BadInput: the first line has another number of fields. A later one ends the table before it,
            and `verify` raises.
    """

    def __init__(self, data: np.ndarray, width: int, name: str, line: int) -> None:
        if data[-1] != NEWLINE:
            data = np.append(data, np.uint8(NEWLINE))
        self.data = data
        self.name, self.line, self.width = name, line, width
        self._problems: list[tuple[int, BadInput]] = []
        ends = np.flatnonzero((self.data == COMMA) | (self.data == NEWLINE))
        breaks = np.flatnonzero(self.data[ends] == NEWLINE)
        uneven = breaks != np.arange(1, breaks.size + 1) * width - 1
        if uneven.any():
            ends = self._cut(ends, breaks, int(np.argmax(uneven)))
        self.count = ends.size // width
        self._ends = ends.reshape(-1, width)
        starts = np.empty(ends.size, np.int64)
        starts[0], starts[1:] = 0, ends[:-1] + 1
        self._starts = starts.reshape(-1, width)

    def _cut(self, ends: np.ndarray, breaks: np.ndarray, row: int) -> np.ndarray:
        """Leave the lines before the first with another number of fields, if there are any."""
        before = int(breaks[row - 1]) + 1 if row else 0
        found = int(breaks[row]) + 1 - before
        error = BadInput(
            f"{self.name}:{self.line + row}: expected {self.width} fields, not {found}"
        )
        if not row:
            raise error
        self._problems.append((row, error))
        return ends[:before]

    def cells(self, column: int) -> tuple[np.ndarray, np.ndarray]:
        """i64[n], i64[n]: where each field of a column begins and ends in `data`."""
        starts, ends = self._starts[:, column], self._ends[:, column]
        if column == self.width - 1:
            ends = ends - ((self.data[ends - 1] == RETURN) & (ends > starts))
        return starts, ends

    def first_in_cells(self, octet: int, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """i64[n]: place of the first such byte in each field, its end if there is none."""
        places = np.append(np.flatnonzero(self.data == octet), self.data.size)
        return np.minimum(places[np.searchsorted(places, starts)], ends)

    def require(self, field: str, valid: np.ndarray, expected: str) -> None:
        """Note the first row whose field is not as it must be."""
        if not valid.all():
            row = int(np.argmin(valid))
            where = f"{self.name}:{self.line + row}: {field}"
            error = BadInput(f"{where}: expected {expected}, in {self.text(row)}")
            self._problems.append((row, error))

    def verify(self) -> None:
        """Raise BadInput for the first line with a problem, and there for the one noted first."""
        if self._problems:
            raise min(self._problems, key=lambda problem: problem[0])[1]

    def text(self, row: int) -> str:
        """A line as an error may quote it."""
        start, end = self._starts[row, 0], self._ends[row, -1]
        return repr(self.data[start : min(end, start + 80)].tobytes().decode("ascii", "replace"))


def integers(
    table: Table, column: int, starts: np.ndarray | None = None, ends: np.ndarray | None = None
) -> Column:
    """The integers of a column, or of a part of each of its fields."""
    first, last = table.cells(column)
    starts = first if starts is None else starts
    ends = last if ends is None else ends
    data = table.data
    negative = (data[starts] == MINUS) & (ends > starts)
    widths = ends - starts - negative
    valid = (widths >= 1) & (widths <= DIGITS_MAX)
    values = np.zeros(table.count, np.int64)
    for place in range(min(int(widths.max()), DIGITS_MAX)):
        inside = widths > place
        digits = data[np.where(inside, ends - 1 - place, 0)] - ZERO  # u8: what is no digit is large
        valid &= ~inside | (digits <= 9)
        values += np.where(inside, digits, 0) * np.int64(10**place)
    return Column(np.where(negative, -values, values), valid)
