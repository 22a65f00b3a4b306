"""The codes, limits and exit statuses of matchbox: every number that has a name.

Codes are part of the wire and log formats: a number once used never changes its meaning. Gaps are room
for what comes later. Plain Python; the kernels freeze these values at compile time.
"""

from enum import IntEnum


class Side(IntEnum):
    """FIX tag 54. The only two values a side may have."""

    BUY = 0
    SELL = 1


class CommandType(IntEnum):
    """First byte of every command. Zeroed memory is never a command."""

    ENTER = 1
    CANCEL = 2
    REDUCE = 3
    REPLACE = 4
    TERMS = 5  # reserved: further terms of the enter that follows
    MASS_CANCEL = 6  # reserved
    DEFINE = 7
    STATE = 8
    # Made inside, never accepted from outside.
    GENESIS = 0x41
    LINK = 0x42
    PAD = 0x43
    CLOCK = 0x44
    REFUSE = 0x45


IGNORABLE_TYPE_BIT = 0x80
"""Set in the type of a log record that an older reader may skip."""


class OrderKind(IntEnum):
    """FIX tag 40; low half of the `kind_tif` byte."""

    LIMIT = 0
    MARKET = 1  # reserved, as are the two below
    STOP = 2
    STOP_LIMIT = 3


class Tif(IntEnum):
    """Time in force, FIX tag 59; high half of the `kind_tif` byte."""

    GTC = 0
    IOC = 1
    FOK = 2  # reserved, as are the two below
    DAY = 3
    GTD = 4


class CommandFlag(IntEnum):
    """Bits of a command's `flags`. A bit that its command does not know is a reject."""

    REQUEUE = 1  # replace: give up priority even where it could be kept


class Kind(IntEnum):
    """What a report says."""

    ACCEPTED = 1
    REJECTED = 2
    EXECUTED = 3
    CANCELED = 4
    REPLACED = 5
    RESTATED = 6
    TRIGGERED = 7  # reserved
    MASS_CANCELED = 8  # reserved
    INSTRUMENT = 9
    STATE = 10


class Reason(IntEnum):
    """Why a report was made. 1-15 canceled, 16-31 restated, 32-95 rejected by the book, 96- by a decoder."""

    NONE = 0
    USER = 1
    IOC = 2
    FOK = 3  # reserved, as are those to 8
    SELF_TRADE = 4
    MASS = 5
    EXPIRY = 6
    HALT = 7
    LOGIN_LOST = 8

    REFRESH = 16  # reserved
    REDUCE = 17
    DECREMENT = 18  # reserved, as are those to 20
    SLIDE = 19
    PEG = 20

    UNKNOWN_ORDER = 32
    DUPLICATE_ORDER_ID = 33
    UNKNOWN_INSTRUMENT = 34
    INSTRUMENT_NOT_OPEN = 35
    INVALID_SIDE = 36
    INVALID_KIND = 37
    INVALID_TIF = 38
    INVALID_FLAGS = 39
    INVALID_QUANTITY = 40
    ORDERS_FULL = 41
    LEVELS_FULL = 42
    LEVEL_OVERFLOW = 43
    NOT_REDUCED = 44
    INVALID_PARAMETER = 45
    INVALID_TRANSITION = 46
    NOT_PERMITTED = 47
    NOT_SUPPORTED = 48

    BAD_TYPE = 96
    TRUNCATED = 97


class ReportFlag(IntEnum):
    """Bits of a report's `flags`."""

    LAST = 1  # last report of its command: the book is whole here
    PENDING = 2  # reserved: an untriggered stop
    REQUEUED = 4  # a replace that lost its priority
    AUCTION = 8  # reserved


class InstrumentState(IntEnum):
    UNDEFINED = 0
    CLOSED = 1
    OPEN = 2
    HALTED = 3


class Action(IntEnum):
    """What a `state` command asks for, in its `parameter` byte."""

    OPEN = 1  # closed -> open
    HALT = 2  # open -> halted
    RESUME = 3  # halted -> open
    CLOSE = 4  # open or halted -> closed


class Parameter(IntEnum):
    """What a `define` command sets. The first one creates its instrument, closed."""

    PRICE_SCALE = 1  # prices are integer multiples of 10^-value; 0 to 18
    QUANTITY_SCALE = 2  # quantities likewise


QUANTITY_MAX = 1 << 62
"""Largest quantity of one order, in lots. A level's total is kept to `LEVEL_QUANTITY_MAX`."""

LEVEL_QUANTITY_MAX = (1 << 63) - 1

SCALE_MAX = 18

OPERATOR_ACCOUNT = 0
"""The account that may `define` and `state`; the raw port and replays act as this account."""

ORDERS_DEFAULT = 1 << 20
LEVELS_DEFAULT = 1 << 17
INSTRUMENTS_DEFAULT = 1 << 10

ORDERS_MAX = 1 << 28
LEVELS_MAX = 1 << 22
INSTRUMENTS_MAX = 1 << 20


class Exit(IntEnum):
    """Exit statuses of the command line, in docs and `--help`."""

    OK = 0
    CHECK_FAILED = 1  # the command ran, and what it checked is not so: a gap, a mismatch
    USAGE = 2  # wrong arguments
    BAD_INPUT = 3  # a file or stream is not what it should be
    UNAVAILABLE = 4  # a port, address, folder or device cannot be had
    LOG_REFUSED = 5  # the log is in use, damaged or from elsewhere: nothing was changed
    HALTED = 6  # the engine stopped itself at a broken invariant
    INTERRUPTED = 130
