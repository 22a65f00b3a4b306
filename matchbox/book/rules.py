"""What enter and replace have in common: what is valid, and whether a level has room. Kernels."""

from matchbox.atomics import U
from matchbox.book.orders import level_at
from matchbox.book.pages import find_group
from matchbox.book.ranks import LOW6, bit_of
from matchbox.book.state import LEVELS, LEVELS_LIMIT
from matchbox.constants import LEVEL_QUANTITY_MAX, QUANTITY_MAX, InstrumentState, Reason
from matchbox.jit import kernel

NO_FAULT = U(Reason.NONE)


@kernel
def is_open(b, instrument):
    """An instrument that exists and is open. Numbers come from outside."""
    known = instrument < U(b.instruments.size)
    return known and b.instruments[instrument].state == InstrumentState.OPEN


@kernel
def is_quantity(quantity):
    return quantity - U(1) < U(QUANTITY_MAX)


@kernel(entry=True)
def level_exists(b, book, rank):
    """Whether any order rests at a rank. Opens nothing."""
    group = find_group(b, book, rank >> U(12))
    if group == U(0):
        return False
    page = U(b.page_of[(group << U(6)) | ((rank >> U(6)) & LOW6)])
    return page != U(0) and b.pages[page].bits & bit_of(rank) != U(0)


@kernel
def level_fault(b, book, rank, quantity, frees_level, leaving_level, leaving):
    """Why a level cannot take `quantity` more, or NO_FAULT and the level.

    frees_level: whether a level goes before; leaving: quantity that leaves `leaving_level` before.
    """
    full = b.counts[LEVELS] == b.counts[LEVELS_LIMIT]
    if full and not frees_level and not level_exists(b, book, rank):
        return U(Reason.LEVELS_FULL), U(0)
    level = level_at(b, book, rank)
    total = b.depth[level] - (leaving if level == leaving_level else U(0))
    if total + quantity > U(LEVEL_QUANTITY_MAX):
        return U(Reason.LEVEL_OVERFLOW), level
    return NO_FAULT, level
