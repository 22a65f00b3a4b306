"""Price levels of one instrument, kept from its reports alone. Plain Python.

Between the reports of one command the book may be crossed; it is whole where `ReportFlag.LAST` is.
An order may be hidden when it is accepted: it counts when it is revealed, or when a further report
names it. Invariant: a level is there if and only if orders stand on it, with the sum of their
leaves.
"""

from typing import NamedTuple

from sortedcontainers import SortedDict

from matchbox.constants import Kind, Side

NO_ASK, NO_BID = 9_999_999_999, -9_999_999_999
"""Prices of a side that is empty, as LOBSTER writes them."""


class Top(NamedTuple):
    """Best price of each side and the quantity there, in LOBSTER's order."""

    ask_price: int
    ask_quantity: int
    bid_price: int
    bid_quantity: int


class Change(NamedTuple):
    """What a ladder needs of a report, its fields in this order."""

    kind: int
    side: int
    reference: int
    contra: int
    price: int
    quantity: int
    flags: int


class Ladder:
    """An empty ladder. `apply` to it every report from the first one on."""

    def __init__(self) -> None:
        self.orders: dict[int, tuple[int, int, int]] = {}  # reference -> side, price, leaves
        self.hidden: dict[int, Change] = {}
        self.levels = (SortedDict(), SortedDict())  # by side: price -> quantity

    def hide(self, accepted: Change) -> None:
        self.hidden[accepted.reference] = accepted

    def reveal(self, reference: int) -> None:
        accepted = self.hidden.pop(reference, None)
        if accepted:
            self.apply(accepted)

    def apply(self, change: Change) -> None:
        kind, side, reference, contra, price, quantity, _ = change
        if kind == Kind.ACCEPTED:
            self.put(reference, side, price, quantity)
            return
        self.reveal(reference)
        if kind == Kind.EXECUTED:
            self.reveal(contra)
            self.lessen(reference, quantity)
            self.lessen(contra, quantity)
        elif kind == Kind.CANCELED:
            self.lessen(reference, quantity)
        elif kind in (Kind.REPLACED, Kind.RESTATED):
            self.lessen(reference, self.orders[reference][2])
            self.put(reference, side, price, quantity)

    def put(self, reference: int, side: int, price: int, quantity: int) -> None:
        self.orders[reference] = side, price, quantity
        level = self.levels[side]
        level[price] = level.get(price, 0) + quantity

    def lessen(self, reference: int, quantity: int) -> None:
        side, price, leaves = self.orders.pop(reference)
        if leaves > quantity:
            self.orders[reference] = side, price, leaves - quantity
        level = self.levels[side]
        level[price] -= quantity
        if not level[price]:
            del level[price]

    def top(self) -> Top:
        bids, asks = self.levels[Side.BUY], self.levels[Side.SELL]
        ask = asks.peekitem(0) if asks else (NO_ASK, 0)
        bid = bids.peekitem(-1) if bids else (NO_BID, 0)
        return Top(*ask, *bid)
