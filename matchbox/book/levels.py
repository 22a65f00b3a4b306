"""Price levels: which is best, what happens when one fills or empties. Kernels."""

from matchbox.atomics import U, trailing_zeros
from matchbox.book.pages import park_group, park_page
from matchbox.book.ranks import LOW6, bit_of
from matchbox.book.state import LEVELS, WORST
from matchbox.jit import kernel


@kernel
def rank_at(b, level):
    return (b.pages[level >> U(6)].key << U(6)) | (level & LOW6)


@kernel
def book_at(b, level):
    return U(b.pages[level >> U(6)].book)


@kernel
def best_from(b, page):
    """Best live level of a page, or after it on its side; 0 if there is none."""
    if b.pages[page].bits == U(0):
        group = U(b.pages[page].group)
        while group and b.groups[group].bits == U(0):  # at most LIMBO empty groups
            group = U(b.groups[group].next)
        if group == U(0):
            return U(0)
        page = U(b.page_of[(group << U(6)) | trailing_zeros(b.groups[group].bits)])
    return (page << U(6)) | trailing_zeros(b.pages[page].bits)


@kernel
def level_filled(b, book, level, rank):
    """A level got its first order."""
    page = b.pages[level >> U(6)]
    page.bits |= bit_of(level)
    b.groups[U(page.group)].bits |= bit_of(page.key)
    b.counts[LEVELS] += U(1)
    side = b.sides[book]
    if rank < side.rank or side.level == 0:
        side.rank = rank
        side.level = level


@kernel
def level_emptied(b, book, level):
    """A level lost its last order."""
    number = level >> U(6)
    page = b.pages[number]
    page.bits &= ~bit_of(level)
    group = U(page.group)
    if page.bits == U(0):
        b.groups[group].bits &= ~bit_of(page.key)
    b.counts[LEVELS] -= U(1)
    side = b.sides[book]
    if U(side.level) == level:
        best = best_from(b, number)
        side.level = best
        side.rank = rank_at(b, best) if best else U(WORST)
    if page.bits == U(0):
        if not page.parked:
            park_page(b, number)
        if b.groups[group].bits == U(0) and not b.groups[group].parked:
            park_group(b, book, group)
