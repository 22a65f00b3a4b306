"""Which report sequences have arrived, which are missing. Plain Python.

Ranges of sequences arrive in any order, more than once or never. What is missing is kept as a
sorted list of ranges, so its cost is the number of losses and not of reports.

Invariants: every sequence from `floor` to `next - 1` either arrived or lies in exactly one range of
`missing`; ranges are inclusive, disjoint, not adjacent, ascending.
"""

from bisect import bisect_right
from typing import NamedTuple


class Range(NamedTuple):
    first: int
    last: int  # inclusive

    @property
    def length(self) -> int:
        return self.last - self.first + 1

    def __str__(self) -> str:
        return f"{self.first}..{self.last}"


class Gaps:
    """Bookkeeping of sequences from `first`, or from the first that arrives.

    Attributes:
        next: the sequence after the highest that is known to exist; None before anything arrived.
        missing: ranges that exist and have not arrived.
        opened: gaps found so far, filled ones included.
        late: reports that filled a gap.
        duplicates: reports that came again.
        early: reports before the first one asked for.
    """

    def __init__(self, first: int | None = None) -> None:
        self.floor = self.next = first
        self.missing: list[Range] = []
        self.opened = self.late = self.duplicates = self.early = 0

    @property
    def missing_count(self) -> int:
        return sum(gap.length for gap in self.missing)

    def expect(self, sequence: int) -> Range | None:
        """All before `sequence` exist. Returns the gap that this reveals."""
        if self.floor is None or self.next is None:
            self.floor = self.next = sequence
        if sequence <= self.next:
            return None
        gap = Range(self.next, sequence - 1)
        self.next = sequence
        self.opened += 1
        if self.missing and self.missing[-1].last + 1 == gap.first:
            self.missing[-1] = Range(self.missing[-1].first, gap.last)
        else:
            self.missing.append(gap)
        return gap

    def arrive(self, first: int, count: int) -> list[Range]:
        """`count` reports from sequence `first` arrived. Returns those that had not, ascending.

        Call `expect(first)` before, to learn of the gap in front of them.
        """
        self.expect(first)
        assert self.floor is not None and self.next is not None
        last, fresh = first + count - 1, []
        if first < self.floor:
            self.early += min(last + 1, self.floor) - first
            first = self.floor
        if first < self.next and first <= last:
            known = Range(first, min(last, self.next - 1))
            fresh = self.fill(known)
            filled = sum(part.length for part in fresh)
            self.late += filled
            self.duplicates += known.length - filled
        if last >= self.next:
            fresh.append(Range(max(first, self.next), last))
            self.next = last + 1
        return fresh

    def fill(self, arrived: Range) -> list[Range]:
        """Take a range out of what is missing. Returns the parts of it that were."""
        start = max(bisect_right(self.missing, arrived.first, key=lambda gap: gap.first) - 1, 0)
        stop, parts, rest = start, [], []
        while stop < len(self.missing) and self.missing[stop].first <= arrived.last:
            gap = self.missing[stop]
            stop += 1
            part = Range(max(gap.first, arrived.first), min(gap.last, arrived.last))
            if part.length < 1:
                rest.append(gap)
                continue
            parts.append(part)
            if gap.first < part.first:
                rest.append(Range(gap.first, part.first - 1))
            if part.last < gap.last:
                rest.append(Range(part.last + 1, gap.last))
        self.missing[start:stop] = rest
        return parts

    def restart(self, sequence: int) -> None:
        """From `sequence` on numbers mean something else: forget what arrived or was missing."""
        if self.floor is None or self.next is None or sequence >= self.next:
            return
        self.floor, self.next = min(self.floor, sequence), sequence
        self.missing = [
            Range(gap.first, min(gap.last, sequence - 1))
            for gap in self.missing
            if gap.first < sequence
        ]
