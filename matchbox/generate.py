"""Made-up order flow: the same bytes for the same seed, on every machine. Plain Python.

    session(1_000_000, seed=7)      # RECORD[n] for the book, the wire or a capture

The price wanders about its mean. Most orders enter near it and are canceled after a while; some
are made smaller or replaced before; immediate ones take from the other side. Arrivals come in
bursts. As on a market a cancel may come too late, and is rejected.

Every draw is a hash of seed, purpose and place, and all arithmetic is on integers: nothing depends
on a library's generator or a processor's rounding. A longer session begins with the shorter one.
"""

from enum import IntEnum, auto
from typing import NamedTuple

import numpy as np

from matchbox.constants import (
    INSTRUMENTS_MAX,
    Action,
    CommandType,
    Parameter,
    Side,
    Tif,
)
from matchbox.errors import BadInput
from matchbox.schema import RECORD

START_NS = 1_767_600_000 * 10**9  # 2026-01-05 08:00 UTC
PRICE_SCALE = 2
MEAN_PRICE = 10_000  # ticks, of instrument 1; each further one is dearer by as much
WAVES = ((8, 2), (12, 6), (16, 24))
"""Of the wandering price: log2 of the period, in arrivals, and the largest distance, in ticks."""

IOC_SHARE, AMENDED_SHARE = 46, 56
PATIENT_TICKS = 4  # an order that enters nearer than this may stay until it trades
LIFE_LOG2 = (2, 13)  # of the arrivals that an order stays
DISTANCE_LOG2_MAX = 6
QUANTITY_MAX = 100
IOC_QUANTITY_MAX = 160
BURST_LOG2 = 6  # of the commands that come at one pace
GAP_LOG2 = (9, 17)  # of nanoseconds between them

U = np.uint64


class Purpose(IntEnum):
    """What a draw is for. The numbers are part of every session: only add at the end."""

    INSTRUMENT = auto()
    SECOND_INSTRUMENT = auto()
    SIDE = auto()
    IOC = auto()
    DISTANCE = auto()
    QUANTITY = auto()
    LIFE = auto()
    PATIENCE = auto()
    AMENDED = auto()
    AMENDMENT = auto()
    AMENDED_AT = auto()
    AMENDED_QUANTITY = auto()
    AMENDED_DISTANCE = auto()
    PACE = auto()
    GAP = auto()
    WAVE = auto()  # the last: one for each of WAVES from here


def mix(x: np.ndarray) -> np.ndarray:
    """u64[n]: the finalizer of SplitMix64 (Steele, Lea, Flood 2014). Arrays wrap without a word."""
    x = (x ^ (x >> U(30))) * U(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> U(27))) * U(0x94D049BB133111EB)
    return x ^ (x >> U(31))


class Draws:
    """Numbers without a state: each is a function of seed, purpose and place."""

    def __init__(self, seed: int) -> None:
        self._seed = mix(np.array([seed & (1 << 64) - 1], U))

    def words(self, purpose: int, places: np.ndarray) -> np.ndarray:
        """u64[n], all bits even, for u64[n] places."""
        key = mix(self._seed + U(purpose))
        return mix(key + places * U(0x9E3779B97F4A7C15))

    def below(self, limit: int, purpose: int, places: np.ndarray) -> np.ndarray:
        """i64[n]: 0 to limit - 1, for a limit that is small against 2^64."""
        return (self.words(purpose, places) % U(limit)).astype(np.int64)

    def scaled(self, log2: tuple[int, int], purpose: int, places: np.ndarray) -> np.ndarray:
        """i64[n]: 2^low to 2^high - 1, as many in each octave."""
        words = self.words(purpose, places)
        low, high = log2
        octave = U(1) << (words % U(high - low) + U(low))
        return (octave | (words >> U(32)) & (octave - U(1))).astype(np.int64)

    def distances(self, purpose: int, places: np.ndarray) -> np.ndarray:
        """i64[n]: ticks from the middle price, mostly few."""
        words = self.words(purpose, places)
        reach = U(2) << sum(
            (words & U((2 << bit) - 1) == 0).astype(U) for bit in range(DISTANCE_LOG2_MAX)
        )
        return ((words >> U(32)) % reach).astype(np.int64) + 1


class Arrivals(NamedTuple):
    """Orders as they come, each with what will be done to it. Arrival i is row i."""

    instrument: np.ndarray  # i64[n]
    side: np.ndarray  # i64[n], `Side`
    ioc: np.ndarray  # bool[n]
    price: np.ndarray  # i64[n]
    quantity: np.ndarray  # i64[n]
    amended: np.ndarray  # bool[n]: reduced or replaced before it is canceled
    replaced: np.ndarray  # bool[n]: replaced, if it is amended
    amended_at: np.ndarray  # i64[n], arrivals
    canceled: np.ndarray  # bool[n]
    canceled_at: np.ndarray  # i64[n], arrivals


def session(count: int, seed: int = 1, instruments: int = 1) -> np.ndarray:
    """A trading session.

    Args:
        count: commands. With more than one instrument the first ones define and open those from 2.
        seed: any whole number.
        instruments: numbered from 1; low numbers are busier.
    Returns:
        RECORD[count] of account 0, login and command_sequence 0, with ascending times.
    Raises:
        BadInput: a negative count, one too small to open the instruments, or no such instruments.
    """
    if not 1 <= instruments <= INSTRUMENTS_MAX:
        raise BadInput(f"instruments {instruments}: expected 1 to {INSTRUMENTS_MAX}")
    opening = opened(instruments)
    if count < opening.size:
        raise BadInput(f"count {count}: expected {opening.size} or more, to open the instruments")
    draws = Draws(seed)
    records = np.empty(count, RECORD)
    records[: opening.size] = opening
    records[opening.size :] = trading(draws, count - opening.size, instruments)
    records["time_ns"] = times(draws, count)
    return records


def opened(instruments: int) -> np.ndarray:
    """RECORD: define and open all instruments but the first, which is there."""
    records = np.zeros((instruments - 1, 2), RECORD)
    records["instrument"] = np.arange(2, instruments + 1)[:, None]
    defines, states = records[:, 0], records[:, 1]
    defines["type"], defines["parameter"] = CommandType.DEFINE, Parameter.PRICE_SCALE
    defines["value"] = PRICE_SCALE
    states["type"], states["parameter"] = CommandType.STATE, Action.OPEN
    return records.reshape(-1)


def trading(draws: Draws, count: int, instruments: int) -> np.ndarray:
    """RECORD[count]: enter, reduce, replace and cancel, without times."""
    orders = arrivals(draws, count, instruments)
    places = np.arange(count)
    amended, canceled = np.flatnonzero(orders.amended), np.flatnonzero(orders.canceled)
    # Of what is due at one arrival the order itself is first.
    due = np.concatenate([places, orders.amended_at[amended], orders.canceled_at[canceled]])
    first = np.argsort(due, kind="stable")[:count]
    records = np.empty(due.size, RECORD)
    records[:count] = enters(orders)
    records[count : count + amended.size] = amendments(draws, orders, amended)
    records[count + amended.size :] = cancels(orders, canceled)
    return records[first]


def arrivals(draws: Draws, count: int, instruments: int) -> Arrivals:
    places = np.arange(count, dtype=U)
    instrument = 1 + np.minimum(
        draws.below(instruments, Purpose.INSTRUMENT, places),
        draws.below(instruments, Purpose.SECOND_INSTRUMENT, places),
    )
    side = draws.below(len(Side), Purpose.SIDE, places)
    ioc = draws.below(256, Purpose.IOC, places) < IOC_SHARE
    distance = draws.distances(Purpose.DISTANCE, places)
    quantity = 1 + np.where(
        ioc,
        draws.below(IOC_QUANTITY_MAX, Purpose.QUANTITY, places),
        draws.below(QUANTITY_MAX, Purpose.QUANTITY, places),
    )
    life = draws.scaled(LIFE_LOG2, Purpose.LIFE, places)
    patient = (distance < PATIENT_TICKS) & (draws.below(3, Purpose.PATIENCE, places) == 0)
    amended_after = 1 + (draws.words(Purpose.AMENDED_AT, places) % life.astype(U)).astype(np.int64)
    arrived = places.astype(np.int64)
    return Arrivals(
        instrument,
        side,
        ioc,
        # An immediate order reaches over the middle.
        middle(draws, places, instrument) + away(side) * np.where(ioc, -distance, distance),
        quantity,
        ~ioc & (draws.below(256, Purpose.AMENDED, places) < AMENDED_SHARE),
        draws.below(2, Purpose.AMENDMENT, places) == 1,
        arrived + amended_after,
        ~ioc & ~patient,
        arrived + life + 1,
    )


def away(side: np.ndarray) -> np.ndarray:
    """The direction from the middle price to a side's own orders."""
    return np.where(side == Side.BUY, -1, 1)


def middle(draws: Draws, places: np.ndarray, instrument: np.ndarray) -> np.ndarray:
    """i64[n]: the middle price at each place: waves of several lengths, drawn at their corners."""
    price = MEAN_PRICE * instrument
    for wave, (log2, height) in enumerate(WAVES):
        corner = (places >> U(log2)) + (instrument.astype(U) << U(40))
        step = (places & U((1 << log2) - 1)).astype(np.int64)
        start, end = (
            draws.below(2 * height + 1, Purpose.WAVE + wave, corner + U(i)) for i in (0, 1)
        )
        price = price + start - height + ((end - start) * step >> log2)
    return price


def order_ids(orders: np.ndarray, replaced: np.ndarray | bool) -> np.ndarray:
    """An order's id by its arrival, and what it is once it is replaced."""
    return 2 * orders + 1 + replaced


def enters(orders: Arrivals) -> np.ndarray:
    records = np.zeros(orders.side.size, RECORD)
    records["type"] = CommandType.ENTER
    records["kind_tif"] = np.where(orders.ioc, Tif.IOC << 4, Tif.GTC << 4)
    records["order_id"] = order_ids(np.arange(orders.side.size), False)
    for name in ("instrument", "side", "price", "quantity"):
        records[name] = getattr(orders, name)
    return records


def amendments(draws: Draws, orders: Arrivals, which: np.ndarray) -> np.ndarray:
    """RECORD: reduce to less than entered, or replace by any quantity at a price of that time."""
    records = np.zeros(which.size, RECORD)
    replaced, places = orders.replaced[which], which.astype(U)
    draw = draws.words(Purpose.AMENDED_QUANTITY, places)
    most = np.where(replaced, QUANTITY_MAX, np.maximum(orders.quantity[which] - 1, 1))
    distance = draws.distances(Purpose.AMENDED_DISTANCE, places)
    at, instrument = orders.amended_at[which].astype(U), orders.instrument[which]
    price = middle(draws, at, instrument) + away(orders.side[which]) * distance
    records["type"] = np.where(replaced, CommandType.REPLACE, CommandType.REDUCE)
    records["instrument"] = instrument
    records["order_id"] = order_ids(which, False)
    records["quantity"] = 1 + (draw % most.astype(U)).astype(np.int64)
    records["price"] = np.where(replaced, price, 0)
    records["new_order_id"] = np.where(replaced, order_ids(which, True), 0)
    return records


def cancels(orders: Arrivals, which: np.ndarray) -> np.ndarray:
    records = np.zeros(which.size, RECORD)
    records["type"] = CommandType.CANCEL
    records["instrument"] = orders.instrument[which]
    records["order_id"] = order_ids(which, (orders.amended & orders.replaced)[which])
    return records


def times(draws: Draws, count: int) -> np.ndarray:
    """u64[count], nanoseconds since 1970: bursts of one pace each."""
    places = np.arange(count, dtype=U)
    pace = draws.scaled(GAP_LOG2, Purpose.PACE, places >> U(BURST_LOG2))
    gaps = (draws.words(Purpose.GAP, places) % (2 * pace).astype(U)).astype(np.int64)
    return (START_NS + np.cumsum(gaps)).astype(U)
