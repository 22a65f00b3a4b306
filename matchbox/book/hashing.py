"""Where a key lives in a chained hash table. Kernels.

    slot = key ^ T(high, tag), cut to the table; high = the part of the key above the table's size

Keys that differ only below keep their distance, so ids issued in sequence and neighbouring prices
lie side by side in memory: a hash that scatters misses the cache at every order (12 instead of 53
million a second on the ferrox stream). T is keyed with three secrets drawn when the book is
allocated: for keys that differ above, or have another tag, it is a coin that nobody outside can
toss, so hostile ids and prices spread as well. Nothing observable depends on it.
"""

from matchbox.atomics import U, fold_multiply, trailing_zeros
from matchbox.jit import kernel


@kernel
def slot_of(secrets, heads, key, tag):
    """Slot of (key, tag) in a table with `heads.size` slots, a power of two."""
    high = key >> trailing_zeros(U(heads.size))
    turned = (high >> U(32)) | (high << U(32))
    toss = fold_multiply(high ^ secrets[0], turned ^ secrets[1] ^ (tag * secrets[2]))
    return (key ^ toss) & U(heads.size - 1)


@kernel
def unchain(heads, records, slot, record):
    """Take a record out of its chain. It must be in it."""
    at = U(heads[slot])
    if at == record:
        heads[slot] = records[record].chain
        return
    while U(records[at].chain) != record:
        at = U(records[at].chain)
    records[at].chain = records[record].chain
