"""Names of states: two books with the same digest act alike from here on. Plain Python, for both
books."""

import hashlib

import numpy as np

DIGEST_BYTES = 16

ORDER = np.dtype(
    [
        ("instrument", "<u4"),
        ("side", "u1"),
        ("price", "<i8"),
        ("order_id", "<u8"),
        ("account", "<u4"),
        ("leaves", "<u8"),
        ("reference", "<u8"),
        ("group", "<u4"),
        ("login", "<u4"),
    ]
)
"""A live order. Rows stand by instrument, side, best price first, oldest order first."""

INSTRUMENT = np.dtype(
    [
        ("instrument", "<u4"),
        ("state", "u1"),
        ("price_scale", "u1"),
        ("quantity_scale", "u1"),
        ("traded", "u1"),
        ("last_price", "<i8"),
    ]
)
"""A defined instrument. Rows stand by number."""

PUBLIC = ["side", "price", "reference", "leaves"]


def digest(orders: np.ndarray, instruments: np.ndarray, report_sequence: int) -> str:
    """Name a whole state: ORDER[n], INSTRUMENT[m] and the last report's sequence. 32 hex digits."""
    summary = hashlib.blake2b(digest_size=DIGEST_BYTES)
    summary.update(np.array([orders.size, instruments.size, report_sequence], "<u8").tobytes())
    summary.update(orders.tobytes())
    summary.update(instruments.tobytes())
    return summary.hexdigest()


def book_digest(orders: np.ndarray, instrument: int) -> str:
    """Name what public reports tell of one instrument: side, price, reference and leaves in
    order."""
    rows = orders[orders["instrument"] == instrument]
    public = np.zeros(rows.size, [(name, ORDER[name]) for name in PUBLIC])
    for name in PUBLIC:
        public[name] = rows[name]
    return hashlib.blake2b(public.tobytes(), digest_size=DIGEST_BYTES).hexdigest()
