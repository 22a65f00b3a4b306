"""Price levels from reports agree with the book that made them."""

import numpy as np
import pytest

from matchbox.constants import Kind, ReportFlag, Side
from matchbox.embedded import ReferenceEngine
from matchbox.generate import session
from matchbox.ladder import NO_ASK, NO_BID, Change, Ladder, Top


def changes(reports: np.ndarray) -> list[Change]:
    columns = (reports[name].tolist() for name in Change._fields)
    return [Change(*values) for values in zip(*columns, strict=True)]


@pytest.mark.parametrize("seed", range(3))
def test_follows_a_book(seed: int) -> None:
    engine, ladder = ReferenceEngine(), Ladder()
    records = session(1_500, seed=seed)
    for at in range(0, records.size, 50):
        for change in changes(engine.submit(records[at : at + 50])):
            ladder.apply(change)
        book = engine.book(1)
        for side, levels in zip(Side, (book.bids, book.asks), strict=True):
            expected = {price: sum(leaves for _, leaves in queue) for price, queue in levels}
            assert dict(ladder.levels[side]) == expected
        top = ladder.top()
        assert top.bid_price == (book.bids[0][0] if book.bids else NO_BID)
        assert top.ask_price == (book.asks[0][0] if book.asks else NO_ASK)


def accepted(reference: int, price: int, quantity: int, side: Side = Side.SELL) -> Change:
    return Change(Kind.ACCEPTED, side, reference, 0, price, quantity, ReportFlag.LAST)


def test_a_hidden_order_counts_when_it_is_revealed() -> None:
    ladder = Ladder()
    ladder.apply(accepted(1, 100, 5))
    ladder.hide(accepted(2, 99, 7))
    assert ladder.top() == Top(100, 5, NO_BID, 0)
    ladder.reveal(2)
    ladder.reveal(2)
    assert ladder.top() == Top(99, 7, NO_BID, 0)


def test_a_hidden_order_counts_when_it_is_named() -> None:
    ladder = Ladder()
    ladder.hide(accepted(1, 99, 7))
    ladder.apply(accepted(2, 99, 4, Side.BUY))
    ladder.apply(Change(Kind.EXECUTED, Side.BUY, 1, 2, 99, 4, ReportFlag.LAST))
    assert ladder.top() == Top(99, 3, NO_BID, 0)
