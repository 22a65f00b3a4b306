"""Bookkeeping of sequences against sets of numbers."""

from hypothesis import given
from hypothesis import strategies as st

from matchbox.gaps import Gaps, Range


def check(gaps: Gaps) -> None:
    """The invariants of `gaps.py`, in a sentence each."""
    for gap in gaps.missing:
        assert gap.first <= gap.last, "ranges are not empty"
        assert gaps.floor is not None and gap.first >= gaps.floor, "nothing is missing before floor"
        assert gaps.next is not None and gap.last < gaps.next, "what is missing is known to exist"
    for one, other in zip(gaps.missing, gaps.missing[1:], strict=False):
        assert one.last + 1 < other.first, "ranges ascend and do not touch"


steps = st.tuples(
    st.sampled_from(["arrive", "expect", "restart"]), st.integers(1, 60), st.integers(1, 12)
)


@given(st.one_of(st.none(), st.integers(1, 30)), st.lists(steps, max_size=30))
def test_as_sets(start: int | None, actions: list[tuple[str, int, int]]) -> None:
    gaps = Gaps(start)
    arrived: set[int] = set()
    floor, end = start, start
    late = duplicates = early = 0
    for action, first, count in actions:
        if action == "restart":
            gaps.restart(first)
            if floor is not None and end is not None and first < end:
                floor, end = min(floor, first), first
                arrived = {sequence for sequence in arrived if sequence < first}
            check(gaps)
            continue
        before = gaps.next
        gap = gaps.expect(first)
        assert gap == (Range(before, first - 1) if before is not None and first > before else None)
        floor = first if floor is None else floor
        end = first if end is None else max(end, first)
        if action == "arrive":
            numbers = set(range(first, first + count))
            early += len({number for number in numbers if number < floor})
            wanted = {number for number in numbers if number >= floor}
            fresh = wanted - arrived
            late += len({number for number in fresh if number < end})
            duplicates += len(wanted & arrived)
            parts = gaps.arrive(first, count)
            assert [n for part in parts for n in range(part.first, part.last + 1)] == sorted(fresh)
            arrived |= fresh
            end = max(end, first + count)
        check(gaps)
        assert gaps.next == end
        missing = [n for gap in gaps.missing for n in range(gap.first, gap.last + 1)]
        assert missing == sorted(set(range(floor, end)) - arrived)
        assert gaps.missing_count == len(missing)
        assert (gaps.late, gaps.duplicates, gaps.early) == (late, duplicates, early)


def test_enormous_gap_costs_one_range() -> None:
    gaps = Gaps(1)
    assert gaps.expect((1 << 64) - 1) == Range(1, (1 << 64) - 2)
    assert gaps.arrive(1 << 63, 2) == [Range(1 << 63, (1 << 63) + 1)]
    assert len(gaps.missing) == 2
    assert gaps.missing_count == (1 << 64) - 4
