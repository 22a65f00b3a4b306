"""One command against the book. Kernels.

`reference.py` says the same in plain words and is the specification; the two give the same bytes.
"""

import numpy as np

from matchbox.atomics import U
from matchbox.book.ahead import slot_of_command
from matchbox.book.change import change
from matchbox.book.enter import enter
from matchbox.book.fields import account_of, head_of, instrument_of, order_id_of, type_of
from matchbox.book.instruments import define, set_state
from matchbox.book.reports import mark_last, reject
from matchbox.constants import CommandType, Reason
from matchbox.jit import kernel


@kernel(entry=True)
def apply_rare(b, words, at, command, outbox, count):
    """Commands of operators, and those that the book does not know."""
    head, account = head_of(words, at), account_of(words, at)
    kind = type_of(head)
    if kind == U(CommandType.DEFINE):
        return define(b, words, at, account, command, outbox, count)
    if kind == U(CommandType.STATE):
        return set_state(b, words, at, account, command, outbox, count)
    fault, order_id, owner = U(Reason.NOT_SUPPORTED), order_id_of(words, at), account << U(32)
    place = instrument_of(head)
    return reject(b, outbox, count, fault, place, U(0), order_id, np.int64(0), U(0), owner, command)


@kernel
def apply(b, words, at, command_sequence, outbox, count):
    """Execute the record at words[at:at + 8]; append its reports to the outbox.

    `look_ahead` has been called for it. Returns the new number of outbox entries.
    """
    command = account_of(words, at) | (command_sequence << U(32))
    slot = slot_of_command(b, at)
    kind = type_of(head_of(words, at))
    if kind == U(CommandType.ENTER):
        count = enter(b, words, at, slot, command, outbox, count)
    elif U(CommandType.CANCEL) <= kind and kind <= U(CommandType.REPLACE):
        count = change(b, words, at, slot, command, outbox, count)
    else:
        count = apply_rare(b, words, at, command, outbox, count)
    mark_last(outbox, count)
    return count
