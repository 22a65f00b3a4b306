"""Pages of 64 ticks in groups of 64 pages: opened when a level needs one, parked when empty,
closed later. Kernels.

The next live level after a page is at most two masks and a hop along the list of groups away.
Opening and closing are the rare path, compiled apart.
"""

from matchbox.atomics import U, trailing_zeros
from matchbox.book import trie
from matchbox.book.hashing import slot_of, unchain
from matchbox.book.ranks import LOW6, bit_of, give, take
from matchbox.book.state import FREE_GROUPS, FREE_PAGES, LIMBO, LOT, NO_BOOK, PARKED
from matchbox.jit import kernel


@kernel
def near_slot(b, book, key):
    return (key ^ (book * U(0x9E3779B97F4A7C15) >> U(40))) & U(b.near.size - 1)


@kernel
def find_group(b, book, key):
    group = U(b.group_heads[slot_of(b.secrets, b.group_heads, key, book)])
    while group and (b.groups[group].key != key or U(b.groups[group].book) != book):
        group = U(b.groups[group].chain)
    return group


@kernel(entry=True)
def open_group(b, book, key):
    """Enter an empty group into the side's list, the table and the trie."""
    group = take(b.counts, FREE_GROUPS, b.free_groups)
    record = b.groups[group]
    record.key = key
    record.book = book
    record.bits = 0
    record.present = 0
    record.parked = 0
    first = U(b.sides[book].first)
    if first == U(0) or key < b.groups[first].key:
        record.previous = 0
        record.next = first
        b.sides[book].first = group
    else:
        previous = find_group(b, book, trie.before(b, book, key))
        record.previous = previous
        record.next = b.groups[previous].next
        b.groups[previous].next = group
    if record.next:
        b.groups[U(record.next)].previous = group
    slot = slot_of(b.secrets, b.group_heads, key, book)
    record.chain = b.group_heads[slot]
    b.group_heads[slot] = group
    trie.insert(b, book, key)
    return group


@kernel
def release_page(b, page):
    record = b.pages[page]
    group = U(record.group)
    b.groups[group].present &= ~bit_of(record.key)
    b.page_of[(group << U(6)) | (record.key & LOW6)] = 0
    record.book = NO_BOOK  # a page number that the near cache remembers fails its check
    record.parked = 0
    give(b.counts, FREE_PAGES, b.free_pages, page)


@kernel(entry=True)
def close_group(b, book, group):
    record = b.groups[group]
    while record.present:
        release_page(b, U(b.page_of[(group << U(6)) | trailing_zeros(record.present)]))
    if record.previous:
        b.groups[U(record.previous)].next = record.next
    else:
        b.sides[book].first = record.next
    if record.next:
        b.groups[U(record.next)].previous = record.previous
    unchain(b.group_heads, b.groups, slot_of(b.secrets, b.group_heads, record.key, book), group)
    trie.remove(b, book, record.key)
    record.book = NO_BOOK
    give(b.counts, FREE_GROUPS, b.free_groups, group)


@kernel(entry=True)
def park_group(b, book, group):
    """An emptied group joins its side's limbo; the one it displaces is closed if it is still
    empty."""
    b.groups[group].parked = 1
    side = b.sides[book]
    at = book * U(LIMBO) + U(side.at)
    side.at = (U(side.at) + U(1)) & U(LIMBO - 1)
    displaced = U(b.limbo[at])
    b.limbo[at] = group
    if displaced:
        b.groups[displaced].parked = 0
        if b.groups[displaced].bits == U(0):
            close_group(b, book, displaced)


@kernel(entry=True)
def park_page(b, page):
    """An emptied page joins the lot; the one it displaces is released if it is still empty."""
    b.pages[page].parked = 1
    at = b.counts[PARKED] & U(LOT - 1)
    b.counts[PARKED] += U(1)
    displaced = U(b.lot[at])
    b.lot[at] = page
    # A page closed with its group may have been opened again elsewhere, and may be this very one.
    if displaced != page and b.pages[displaced].parked:
        b.pages[displaced].parked = 0
        if b.pages[displaced].bits == U(0):
            release_page(b, displaced)


@kernel(entry=True)
def open_page(b, book, key):
    """The page of a key, opened if it is not. The pools are sized so that there always is one."""
    group = find_group(b, book, key >> U(6))
    if group == U(0):
        group = open_group(b, book, key >> U(6))
    at = (group << U(6)) | (key & LOW6)
    page = U(b.page_of[at])
    if page == U(0):
        page = take(b.counts, FREE_PAGES, b.free_pages)
        record = b.pages[page]
        record.key = key
        record.book = book
        record.bits = 0
        record.group = group
        record.parked = 0
        b.page_of[at] = page
        b.groups[group].present |= bit_of(key)
        for level in range(page << U(6), (page + U(1)) << U(6)):
            b.cells[level] = U(level) | (U(level) << U(32))
    return page


@kernel
def page_at(b, book, key):
    """The page of a key, through the near cache."""
    at = near_slot(b, book, key)
    page = U(b.near[at])
    if b.pages[page].key != key or U(b.pages[page].book) != book:
        page = open_page(b, book, key)
        b.near[at] = page
    return page
