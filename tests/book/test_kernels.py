"""What no kernel may hold, and what the state's memory is."""

import re

import numpy as np
import pytest
from numba import njit

from matchbox.book import state
from matchbox.book.check import check
from matchbox.book.execute import execute
from matchbox.book.state import FREE_ORDERS, LEVELS
from matchbox.embedded import Engine
from matchbox.errors import BadInput

FLOATS = re.compile(r"\b(sitofp|uitofp|fadd|fmul|fptosi|fptoui)\b")


def test_no_float_touches_a_price_or_a_quantity() -> None:
    """i64 mixed with u64 becomes f64 in silence: prices above 2^53 would be rounded."""
    fresh = njit(execute.py_func, nogil=True, _nrt=False)  # cached code shows no intermediate code
    u64 = np.uint64
    fresh(
        state.allocate(1, 1, 1), np.zeros(8, u64), u64(0), u64(0), u64(0), u64(1), state.outbox(1)
    )
    (text,) = fresh.inspect_llvm().values()
    assert len(text) > 10_000, "the kernel's own code is there"
    assert not FLOATS.search(text)


def test_check_notices_damage() -> None:
    for damage in ("depth", "bits", "best", "levels", "queue"):
        engine = Engine(orders=16, levels=16, instruments=1)
        for order_id, price in enumerate((5, 5, 6)):
            engine.enter(order_id=order_id, side="buy", price=price, quantity=3)
        book = engine.compiled.state
        check(book)
        level = int(book.sides["level"][2])
        match damage:
            case "depth":
                book.depth[level] += np.uint64(1)
            case "bits":
                book.pages["bits"][level // 64] = 0
            case "best":
                book.sides["level"][2] = 0
            case "levels":
                book.counts[LEVELS] += np.uint64(1)
            case "queue":
                book.counts[FREE_ORDERS] += np.uint64(1)
        with pytest.raises(AssertionError):
            check(book)


def test_limits_are_checked() -> None:
    for limits in ({"orders": 0}, {"levels": 0}, {"instruments": 0}, {"orders": 1 << 40}):
        with pytest.raises(BadInput, match=next(iter(limits))):
            state.allocate(**limits)


def test_memory_a_piece() -> None:
    """The figures that `state.py` states."""

    def size(**limits: int) -> int:
        book = state.allocate(**limits)
        return sum(array.nbytes for name, array in book._asdict().items() if name != "halves")

    base = {"orders": 1 << 14, "levels": 1 << 14, "instruments": 64}
    more_orders = size(**{**base, "orders": 1 << 15}) - size(**base)
    assert 64 <= more_orders / (1 << 14) <= 80
    more_levels = size(**{**base, "levels": 1 << 15}) - size(**base)
    assert more_levels / (1 << 14) <= 2048
