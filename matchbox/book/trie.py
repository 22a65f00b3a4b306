"""A trie of open group keys, 64 children a word: who is a new group's neighbour? Kernels.

Word (key, tag) at height h holds which of the 64 keys key * 64 ... key * 64 + 63 below it exist;
tag is book << 4 | h. Words are found by hash, so an empty stretch costs nothing however wide.
Touched only when a group opens or closes: at most 9 lookups up and 9 down.
"""

from matchbox.atomics import U, leading_zeros
from matchbox.book.hashing import slot_of, unchain
from matchbox.book.ranks import LOW6, bit_of, give, take
from matchbox.book.state import FREE_WORDS, HEIGHTS
from matchbox.jit import kernel

HEIGHT_MASK = U(15)
assert HEIGHTS <= HEIGHT_MASK


@kernel
def tag_of(book):
    return book << U(4)


@kernel
def find(book_state, key, tag):
    """Number of a word, or 0. Word 0 has no bits."""
    b = book_state
    word = U(b.word_heads[slot_of(b.secrets, b.word_heads, key, tag)])
    while word and (b.words[word].key != key or b.words[word].tag != tag):
        word = U(b.words[word].chain)
    return word


@kernel(entry=True)
def insert(b, book, key):
    tag = tag_of(book)
    for _ in range(HEIGHTS):
        bit = bit_of(key)
        key >>= U(6)
        word = find(b, key, tag)
        if word:
            b.words[word].bits |= bit
            return
        word = take(b.counts, FREE_WORDS, b.free_words)
        slot = slot_of(b.secrets, b.word_heads, key, tag)
        record = b.words[word]
        record.key = key
        record.tag = tag
        record.bits = bit
        record.chain = b.word_heads[slot]
        b.word_heads[slot] = word
        tag += U(1)


@kernel(entry=True)
def remove(b, book, key):
    tag = tag_of(book)
    for _ in range(HEIGHTS):
        bit = bit_of(key)
        key >>= U(6)
        word = find(b, key, tag)
        b.words[word].bits &= ~bit
        if b.words[word].bits:
            return
        unchain(b.word_heads, b.words, slot_of(b.secrets, b.word_heads, key, tag), word)
        give(b.counts, FREE_WORDS, b.free_words, word)
        tag += U(1)


@kernel(entry=True)
def before(b, book, key):
    """The largest key below `key`; there must be one."""
    tag = tag_of(book)
    while True:
        low = key & LOW6
        key >>= U(6)
        if low:
            smaller = b.words[find(b, key, tag)].bits << (U(64) - low)
            if smaller:
                key = (key << U(6)) | (low - U(1) - leading_zeros(smaller))
                break
        tag += U(1)
    while tag & HEIGHT_MASK:
        tag -= U(1)
        key = (key << U(6)) | (LOW6 - leading_zeros(b.words[find(b, key, tag)].bits))
    return key
