"""Every invariant of the compiled book, verified slowly, in a sentence each. Plain Python.

`state.py` lists the invariants; this walks the arrays and compares. For tests, faults and `verify`.
"""

import numpy as np

from matchbox.book.state import (
    FREE_GROUPS,
    FREE_ORDERS,
    FREE_PAGES,
    FREE_WORDS,
    HEIGHTS,
    LEVELS,
    LEVELS_LIMIT,
    LIMBO,
    NODE_WORDS,
    WORST,
    Book,
)

LOW = 0xFFFFFFFF


def check(b: Book) -> None:
    """Raises AssertionError with the sentence that is not so."""
    groups = open_groups(b)
    seen: set[int] = set()
    levels = 0
    for book in range(b.sides.size):
        best = 0
        for group in groups.get(book, []):
            for page in pages_of(b, group):
                for tick in range(64):
                    level = page * 64 + tick
                    orders = queue(b, level)
                    live = bool(int(b.pages["bits"][page]) >> tick & 1)
                    assert live == bool(orders), f"level {level}: its bit says whether orders rest"
                    total = sum(int(b.cells[node + 3]) for node in orders)
                    assert total == int(b.depth[level]), (
                        f"level {level}: depth is the sum of leaves"
                    )
                    assert not seen & set(orders), "an order is in one queue"
                    assert all(int(b.cells[node + 3]) > 0 for node in orders), (
                        "resting orders have leaves"
                    )
                    seen.update(orders)
                    levels += live
                    best = best or (level if live else 0)
        assert int(b.sides["level"][book]) == best, (
            f"book {book}: the best level is the first live one"
        )
        rank = int(b.pages["key"][best // 64]) * 64 + best % 64 if best else WORST
        assert int(b.sides["rank"][book]) == rank, f"book {book}: and its rank is cached"
    assert levels == int(b.counts[LEVELS]) <= int(b.counts[LEVELS_LIMIT]), "live levels are counted"
    check_uncrossed(b)
    check_index(b, seen)
    check_trie(b, groups)
    check_pools(b, groups, len(seen))


def open_groups(b: Book) -> dict[int, list[int]]:
    """Groups by book as their lists have them, in rank order."""
    found: dict[int, list[int]] = {}
    for book in range(b.sides.size):
        group, previous, key = int(b.sides["first"][book]), 0, -1
        empty = 0
        while group:
            record = b.groups[group]
            assert int(record["book"]) == book, f"group {group} is in its own side's list"
            assert int(record["previous"]) == previous, f"group {group}: list links agree"
            assert int(record["key"]) > key, f"group {group}: the list is in rank order"
            empty += record["bits"] == 0
            assert record["bits"] or record["parked"], f"group {group}: an empty one is parked"
            found.setdefault(book, []).append(group)
            previous, key, group = group, int(record["key"]), int(record["next"])
        assert empty <= LIMBO, f"book {book}: no more empty groups than limbo holds"
    return found


def pages_of(b: Book, group: int) -> list[int]:
    """Open pages of a group in rank order, with its masks checked."""
    pages = []
    for place in range(64):
        page = int(b.page_of[group * 64 + place])
        present = bool(int(b.groups["present"][group]) >> place & 1)
        live = bool(int(b.groups["bits"][group]) >> place & 1)
        assert present == bool(page), f"group {group}: present says which pages are open"
        assert live == bool(page and b.pages["bits"][page]), (
            f"group {group}: bits say which are live"
        )
        if page:
            record = b.pages[page]
            key = int(b.groups["key"][group]) * 64 + place
            assert int(record["key"]) == key and int(record["group"]) == group, (
                f"page {page} is its own"
            )
            parked = record["parked"] or b.groups["parked"][group]
            assert record["bits"] or parked, f"page {page}: an empty one is parked, or its group is"
            pages.append(page)
    return pages


def queue(b: Book, level: int) -> list[int]:
    """Orders of a level, oldest first, with the ring checked."""
    orders, node, previous = [], int(b.cells[level]) & LOW, level
    while node != level:
        assert int(b.cells[node]) >> 32 == previous, f"order {node}: queue links agree"
        assert int(b.cells[node + 1]) & LOW == level, f"order {node} knows its level"
        orders.append(node)
        previous, node = node, int(b.cells[node]) & LOW
    assert int(b.cells[level]) >> 32 == previous, f"level {level}: its last order is its tail"
    return orders


def check_uncrossed(b: Book) -> None:
    for book in range(0, b.sides.size, 2):
        if b.sides["level"][book] and b.sides["level"][book + 1]:
            bid, ask = (int(b.sides["rank"][book + side]) for side in (0, 1))
            assert signed(bid, True) < signed(ask, False), "a book is never crossed"


def signed(rank: int, bid: bool) -> int:
    """Price of a rank."""
    value = rank ^ (2**63 - 1 if bid else 1 << 63)
    return value - (1 << 64) if value >> 63 else value


def check_index(b: Book, resting: set[int]) -> None:
    indexed: list[int] = []
    for head in b.order_heads[np.flatnonzero(b.order_heads)]:
        node = int(head)
        while node:
            indexed.append(node)
            node = int(b.cells[node + 1]) >> 32
    assert len(indexed) == len(set(indexed)), "an order is in one chain"
    assert set(indexed) == resting, "the index holds the resting orders and no other"
    keys = {(int(b.cells[n + 5]) >> 32, int(b.cells[n + 2])) for n in indexed}
    assert len(keys) == len(indexed), "account and order_id name one order"


def check_trie(b: Book, groups: dict[int, list[int]]) -> None:
    """The trie holds exactly the open groups, at every height."""
    expected: dict[tuple[int, int], int] = {}
    for book, members in groups.items():
        for group in members:
            key = int(b.groups["key"][group])
            for height in range(HEIGHTS):
                place = (key >> 6, book << 4 | height)
                expected[place] = expected.get(place, 0) | 1 << (key & 63)
                key >>= 6
    used = b.words[words_in_use(b)]
    found = {(int(w["key"]), int(w["tag"])): int(w["bits"]) for w in used}
    assert found == expected, "the trie holds exactly the open groups"


def check_pools(b: Book, groups: dict[int, list[int]], orders: int) -> None:
    """Every record is either free or in use, none both."""
    members = [group for side in groups.values() for group in side]
    pages = sum(int(b.groups["present"][group]).bit_count() for group in members)
    words = len(words_in_use(b))
    for name, stack, pool, used in (
        ("order", b.free_orders, FREE_ORDERS, orders),
        ("page", b.free_pages, FREE_PAGES, pages),
        ("group", b.free_groups, FREE_GROUPS, len(members)),
        ("word", b.free_words, FREE_WORDS, words),
    ):
        free = stack[: int(b.counts[pool])]
        assert free.size + used == stack.size, f"every {name} is free or in use"
        assert np.unique(free).size == free.size, f"no {name} is free twice"
    assert all(
        (int(node) - int(b.pages.size) * 64) % NODE_WORDS == 0 for node in b.free_orders[:64]
    )


def words_in_use(b: Book) -> list[int]:
    used = []
    for head in b.word_heads[np.flatnonzero(b.word_heads)]:
        word = int(head)
        while word:
            used.append(word)
            word = int(b.words["chain"][word])
    return used
