"""The book's state: arrays, allocated once, and what they hold. Plain Python.

A price seen from its side is a *rank*: its bits with the sign flipped, and all inverted for bids,
so that on either side a smaller rank is better and one code path serves both. `book` is instrument
* 2 + side.

    cells   u64, one arena. First the levels, 64 a page: the level of page p and tick t is cell p *
            64 + t and holds one link pair: next in its low half, previous in its high half. Then
            the order nodes, eight cells, one cache line, each; an order's handle is the number of
            its first cell, 0 is none:

            cell  low half     high half
               0  next         previous    its place in the queue: a ring through the level's own
               cell
               1  level        chain       cell of its level; next order in its hash chain
               2  order_id
               3  leaves_quantity
               4  reference
               5  login        account
               6  group        -
               7  -                        (hidden quantity, later)

            A level is empty if and only if it links to itself, so linking and unlinking have no
            empty case.
    page    64 consecutive ticks of one book and a mask of the live ones.
    group   64 consecutive pages (4,096 ticks), a mask of the live ones and their numbers. A side's
            groups form a list in rank order; a 64-ary trie of group keys finds a new group's
            neighbour.
    tables  chained hash tables; the heads are here, the chains run through the records
    (`hashing.py`).
    near    direct-mapped cache from page key to page, always verified against the page's own key.
    parking An emptied page stays open in a queue of LOT pages, an emptied group in its side's
            queue of LIMBO groups; what leaves the queue empty is closed. So a book that blinks at
            the touch opens and closes nothing.

Invariants, which `check.py` verifies: (1) every order is in exactly one level's ring and one
chain; (2) a page's mask bit is set if and only if its level is not empty, a group's if and only if
the page's mask is not 0; (3) a side's list and trie hold exactly its open groups, in rank order;
(4) an empty open group is parked, an empty open page is parked or its group is; (5) a side's best
level is the first live one, 0 if it has none; (6) record 0 of each kind is none.

Limits are rules of the market, not of memory: `orders` live orders and `levels` live price levels.
The pools are sized so that neither can run out before its limit: pages for every live level and
every parked page; groups for every live level and every side's limbo; nine trie words a group.
Memory is touched when used.

Bytes: an order 64 + 8 of index; a level 16 in a dense page, at most 1,500 if it is alone in its
page and group; an instrument 240, and 32 groups kept in reserve.
"""

import secrets
from typing import NamedTuple

import numpy as np

from matchbox.constants import (
    INSTRUMENTS_DEFAULT,
    INSTRUMENTS_MAX,
    LEVELS_DEFAULT,
    LEVELS_MAX,
    ORDERS_DEFAULT,
    ORDERS_MAX,
    InstrumentState,
)
from matchbox.errors import BadInput
from matchbox.memory import huge

NODE_WORDS = 8
LIMBO = 16
LOT = 1 << 12
HEIGHTS = 9  # of the trie: ceil((64 - 12) / 6)
AHEAD = 24  # commands looked ahead
NEAR_MIN = 1 << 13
NO_BOOK = 0xFFFFFFFF
WORST = (1 << 64) - 1

OUTBOX_SOFT = 1 << 11
"""Reports after which a batch of commands ends early."""

OUTBOX_SLACK = 1 << 12

PAGE = np.dtype(
    [
        ("key", "u8"),
        ("bits", "u8"),
        ("book", "u4"),
        ("group", "u4"),
        ("parked", "u4"),
        ("pad", "u4"),
    ]
)
GROUP = np.dtype(
    [
        ("key", "u8"),
        ("bits", "u8"),  # pages with live levels
        ("present", "u8"),  # open pages
        ("book", "u4"),
        ("chain", "u4"),
        ("next", "u4"),
        ("previous", "u4"),
        ("parked", "u4"),
        ("pad", "u4", 5),
    ]
)
WORD = np.dtype([("key", "u8"), ("bits", "u8"), ("tag", "u8"), ("chain", "u4"), ("pad", "u4")])
SIDE = np.dtype([("rank", "u8"), ("level", "u4"), ("first", "u4"), ("at", "u4"), ("pad", "u4", 3)])
INSTRUMENT = np.dtype(
    [
        ("last_price", "i8"),
        ("state", "u1"),
        ("price_scale", "u1"),
        ("quantity_scale", "u1"),
        ("traded", "u1"),
        ("pad", "u4"),
    ]
)

# Indices of `counts`.
FREE_ORDERS, FREE_PAGES, FREE_GROUPS, FREE_WORDS, PARKED, LEVELS, LEVELS_LIMIT, REPORTS = range(8)


class Book(NamedTuple):
    cells: np.ndarray  # u64: levels, then orders
    halves: np.ndarray  # the same bytes as u32
    depth: np.ndarray  # u64: total quantity of each level
    pages: np.ndarray  # PAGE
    groups: np.ndarray  # GROUP
    page_of: np.ndarray  # u32: group * 64 + place -> page
    words: np.ndarray  # WORD: the trie
    sides: np.ndarray  # SIDE, by book
    instruments: np.ndarray  # INSTRUMENT, by number; 0 is none
    order_heads: np.ndarray  # u32
    group_heads: np.ndarray  # u32
    word_heads: np.ndarray  # u32
    near: np.ndarray  # u32
    lot: np.ndarray  # u32: parked pages
    limbo: np.ndarray  # u32: parked groups, LIMBO a side
    free_orders: np.ndarray  # u32 stacks of free numbers
    free_pages: np.ndarray
    free_groups: np.ndarray
    free_words: np.ndarray
    counts: np.ndarray  # u64[8], by the indices above
    slots: np.ndarray  # u64[32]: index slots worked out ahead, by position
    secrets: np.ndarray  # u64[3]


def power_of_two(count: int) -> int:
    return 1 << (count - 1).bit_length()


def allocate(
    orders: int = ORDERS_DEFAULT,
    levels: int = LEVELS_DEFAULT,
    instruments: int = INSTRUMENTS_DEFAULT,
    prefault: bool = False,
) -> Book:
    """An empty book for `orders` live orders, `levels` live price levels and instruments 1 to
    `instruments`.

    Instrument 1 is open. Raises BadInput for a limit outside 1 to its maximum.
    """
    for name, value, largest in (
        ("orders", orders, ORDERS_MAX),
        ("levels", levels, LEVELS_MAX),
        ("instruments", instruments, INSTRUMENTS_MAX),
    ):
        if not isinstance(value, int) or not 1 <= value <= largest:
            raise BadInput(f"{name} {value!r}: expected 1 to {largest}")
    books = (instruments + 1) * 2
    pages = levels + LOT + 2
    groups = levels + LIMBO * books + 2
    words = HEIGHTS * groups
    first_order = pages * 64
    assert first_order + orders * NODE_WORDS < 1 << 32, "cell numbers are u32"

    def zeros(count: int, dtype: np.typing.DTypeLike) -> np.ndarray:
        return huge(count, dtype, prefault)

    def stack(
        count: int,
    ) -> np.ndarray:  # popped from the end: lowest number first; 0 is never free
        free = zeros(count - 1, np.uint32)
        free[:] = np.arange(count - 1, 0, -1, dtype=np.uint32)
        return free

    cells = zeros(first_order + orders * NODE_WORDS, np.uint64)
    sides = zeros(books, SIDE)
    sides["rank"] = WORST
    state = zeros(instruments + 1, INSTRUMENT)
    state["state"][1] = InstrumentState.OPEN
    free_orders = zeros(orders, np.uint32)
    free_orders[:] = first_order + NODE_WORDS * np.arange(orders - 1, -1, -1, dtype=np.int64)
    free_pages, free_groups, free_words = stack(pages), stack(groups), stack(words)
    counts = np.zeros(8, np.uint64)
    counts[:4] = [pool.size for pool in (free_orders, free_pages, free_groups, free_words)]
    counts[LEVELS_LIMIT] = levels
    return Book(
        cells=cells,
        halves=cells.view(np.uint32),
        depth=zeros(pages * 64, np.uint64),
        pages=zeros(pages, PAGE),
        groups=zeros(groups, GROUP),
        page_of=zeros(groups * 64, np.uint32),
        words=zeros(words, WORD),
        sides=sides,
        instruments=state,
        order_heads=zeros(power_of_two(orders) * 2, np.uint32),
        group_heads=zeros(power_of_two(groups) * 2, np.uint32),
        word_heads=zeros(power_of_two(groups) * 2, np.uint32),
        near=zeros(max(NEAR_MIN, power_of_two(instruments * 8)), np.uint32),
        lot=zeros(LOT, np.uint32),
        limbo=zeros(books * LIMBO, np.uint32),
        free_orders=free_orders,
        free_pages=free_pages,
        free_groups=free_groups,
        free_words=free_words,
        counts=counts,
        slots=np.zeros(32, np.uint64),
        secrets=np.array([secrets.randbits(64) | 1 for _ in range(3)], np.uint64),
    )


def outbox(orders: int) -> np.ndarray:
    """Room for the reports of one batch: u64, eight words an entry.

    One command makes at most `orders` + 2 reports: each execution but the last fills a resting
    order.
    """
    return huge((orders + OUTBOX_SLACK) * NODE_WORDS, np.uint64)
