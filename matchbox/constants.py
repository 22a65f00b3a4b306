"""The codes, limits and exit statuses of matchbox: every number that has a name.

Codes are part of the wire and log formats: a number once used never changes its meaning. Gaps are
room for what comes later. The comment beside a code is its sentence in help and documents. Plain
Python; the kernels freeze these values at compile time.
"""

from enum import IntEnum


class Side(IntEnum):
    """FIX tag 54. The only two values a side may have."""

    BUY = 0  # bid
    SELL = 1  # ask


class CommandType(IntEnum):
    """First byte of every command. Zeroed memory is never a command."""

    ENTER = 1  # a new order
    CANCEL = 2  # take an order out
    REDUCE = 3  # make an order smaller where it stands
    REPLACE = 4  # change price, quantity or id of an order
    TERMS = 5  # reserved: further terms of the enter that follows
    MASS_CANCEL = 6  # reserved
    DEFINE = 7  # set a parameter of an instrument
    STATE = 8  # open, halt, resume or close an instrument
    # Made inside, never accepted from outside.
    GENESIS = 0x41  # first record of a log: its limits
    LINK = 0x42  # first record of every segment: where the one before ended
    PAD = 0x43  # reserved
    CLOCK = 0x44  # reserved
    REFUSE = 0x45  # reserved


CLIENT_TYPES = (
    CommandType.ENTER,
    CommandType.CANCEL,
    CommandType.REDUCE,
    CommandType.REPLACE,
    CommandType.DEFINE,
    CommandType.STATE,
)
"""What may come from outside: from a client, or in a file."""

IGNORABLE_TYPE_BIT = 0x80
"""Set in the type of a log record that an older reader may skip."""


class OrderKind(IntEnum):
    """FIX tag 40; low half of the `kind_tif` byte."""

    LIMIT = 0  # trades at its price or better
    MARKET = 1  # reserved
    STOP = 2  # reserved
    STOP_LIMIT = 3  # reserved


class Tif(IntEnum):
    """Time in force, FIX tag 59; high half of the `kind_tif` byte."""

    GTC = 0  # rests until canceled
    IOC = 1  # trades what it can at once, the rest is canceled
    FOK = 2  # reserved
    DAY = 3  # reserved
    GTD = 4  # reserved


class CommandFlag(IntEnum):
    """Bits of a command's `flags`. A bit that its command does not know is a reject."""

    REQUEUE = 1  # replace: give up priority even where it could be kept


class Kind(IntEnum):
    """What a report says."""

    ACCEPTED = 1  # an order is in the book or about to trade
    REJECTED = 2  # nothing was changed
    EXECUTED = 3  # two orders traded
    CANCELED = 4  # an order or its rest is out of the book
    REPLACED = 5  # an order has other terms
    RESTATED = 6  # an order is smaller and keeps its place
    TRIGGERED = 7  # reserved
    MASS_CANCELED = 8  # reserved
    INSTRUMENT = 9  # a parameter of an instrument was set
    STATE = 10  # an instrument changed its state


class Reason(IntEnum):
    """Why a report was made.

    1-15 canceled, 16-31 restated, 32-95 rejected by the book, 96 and up by a decoder.
    """

    NONE = 0  # nothing out of the ordinary
    USER = 1  # canceled: the client asked for it
    IOC = 2  # canceled: the rest of an order that may not rest
    FOK = 3  # reserved
    SELF_TRADE = 4  # reserved
    MASS = 5  # reserved
    EXPIRY = 6  # reserved
    HALT = 7  # reserved
    LOGIN_LOST = 8  # reserved

    REFRESH = 16  # reserved
    REDUCE = 17  # restated: the client made it smaller
    DECREMENT = 18  # reserved
    SLIDE = 19  # reserved
    PEG = 20  # reserved

    UNKNOWN_ORDER = 32  # the account has no live order of this id in this instrument
    DUPLICATE_ORDER_ID = 33  # the account has a live order of this id
    UNKNOWN_INSTRUMENT = 34  # not defined, or beyond the limit
    INSTRUMENT_NOT_OPEN = 35  # closed or halted: only cancel and reduce are served
    INVALID_SIDE = 36  # neither 0 nor 1
    INVALID_KIND = 37  # not a kind of order that is supported
    INVALID_TIF = 38  # not a time in force that is supported
    INVALID_FLAGS = 39  # a flag that this command does not know
    INVALID_QUANTITY = 40  # below 1 (reduce: 0) or above 2^62
    ORDERS_FULL = 41  # as many orders rest as the book holds
    LEVELS_FULL = 42  # as many price levels are in use as the book holds
    LEVEL_OVERFLOW = 43  # the level's total would pass 2^63 - 1
    NOT_REDUCED = 44  # not less than what is left of the order
    INVALID_PARAMETER = 45  # unknown parameter or action, or a value out of range
    INVALID_TRANSITION = 46  # not allowed from the instrument's state
    NOT_PERMITTED = 47  # for the operator account only
    NOT_SUPPORTED = 48  # a command type without a meaning yet

    BAD_TYPE = 96  # the first byte is no command's; the connection is closed
    TRUNCATED = 97  # the connection ended inside a command
    CONNECTIONS_FULL = 98  # no room for a further connection; it is closed


class ReportFlag(IntEnum):
    """Bits of a report's `flags`."""

    LAST = 1  # last report of its command: the book is whole here
    PENDING = 2  # reserved: an untriggered stop
    REQUEUED = 4  # a replace that lost its priority
    AUCTION = 8  # reserved


class InstrumentState(IntEnum):
    UNDEFINED = 0  # no command but define knows it
    CLOSED = 1  # orders stay, none enter
    OPEN = 2  # orders enter and trade
    HALTED = 3  # orders stay, none enter


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

    OK = 0  # done
    CHECK_FAILED = 1  # the command ran, and what it checked is not so: a gap, a mismatch
    USAGE = 2  # wrong arguments
    BAD_INPUT = 3  # a file or stream is not what it should be
    UNAVAILABLE = 4  # a port, address, folder or device cannot be had
    LOG_REFUSED = 5  # the log is in use, damaged or from elsewhere: nothing was changed
    HALTED = 6  # the engine stopped itself at a broken invariant
    BUG = 70  # matchbox itself failed; MATCHBOX_TRACEBACK=1 shows where
    INTERRUPTED = 130  # interrupted by a signal
    BROKEN_PIPE = 141  # whoever read the output went away


class Halt(IntEnum):
    """Why an engine stopped itself. What was logged is kept; what was not sent is sent at the next
    start."""

    NONE = 0  # it did not
    LOG_FAILED = 1  # no further segment of the log could be made: disk full or failing
    PUBLICATION = 2  # report sequences were not dense: a fault in matchbox
