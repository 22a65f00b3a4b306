"""A compiled book's state as arrays, in the order that digests want. Plain Python."""

import numpy as np

from matchbox.book.digest import INSTRUMENT, ORDER
from matchbox.book.dump import dump_orders
from matchbox.book.state import FREE_ORDERS, Book
from matchbox.constants import InstrumentState

KEPT = ["state", "price_scale", "quantity_scale", "traded", "last_price"]


def rows(book: Book) -> tuple[np.ndarray, np.ndarray]:
    """Live orders, ORDER[n], and defined instruments, INSTRUMENT[m]."""
    orders = np.zeros(book.free_orders.size - int(book.counts[FREE_ORDERS]), ORDER)
    count = int(dump_orders(book, orders))
    assert count == orders.size, f"{count} orders in queues, {orders.size} nodes in use"
    numbers = np.flatnonzero(book.instruments["state"] != InstrumentState.UNDEFINED)
    instruments = np.zeros(numbers.size, INSTRUMENT)
    instruments["instrument"] = numbers
    for name in KEPT:
        instruments[name] = book.instruments[name][numbers]
    return orders, instruments
