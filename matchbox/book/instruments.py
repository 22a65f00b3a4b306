"""The instrument table: `define` and `state` commands. Kernels, compiled apart: they are rare."""

import numpy as np

from matchbox.atomics import U
from matchbox.book.reports import meta, report
from matchbox.constants import (
    OPERATOR_ACCOUNT,
    SCALE_MAX,
    Action,
    InstrumentState,
    Kind,
    Parameter,
    Reason,
)
from matchbox.jit import kernel

INSTRUMENT = meta(Kind.INSTRUMENT)
STATE = meta(Kind.STATE)
REJECTED = meta(Kind.REJECTED)


@kernel
def answer(b, outbox, count, fault, kind, instrument, contra, price, account, command):
    """The one report of either command: what it did, or the reason why not."""
    word5 = instrument | (REJECTED | (fault << U(48)) if fault else kind)
    order = account << U(32)
    return report(b, outbox, count, word5, U(0), contra, price, U(0), order, command)


@kernel(entry=True)
def define(b, words, at, account, command, outbox, count):
    head, value = words[at + U(3)], np.int64(words[at + U(5)])
    instrument, parameter = head >> U(32), (head >> U(8)) & U(0xFF)
    fault = U(0)
    if account != U(OPERATOR_ACCOUNT):
        fault = U(Reason.NOT_PERMITTED)
    elif instrument == U(0) or instrument >= U(b.instruments.size):
        fault = U(Reason.UNKNOWN_INSTRUMENT)
    elif parameter != U(Parameter.PRICE_SCALE) and parameter != U(Parameter.QUANTITY_SCALE):
        fault = U(Reason.INVALID_PARAMETER)
    elif value < 0 or value > SCALE_MAX:
        fault = U(Reason.INVALID_PARAMETER)
    else:
        record = b.instruments[instrument]
        if record.state == InstrumentState.UNDEFINED:
            record.state = InstrumentState.CLOSED
        if parameter == U(Parameter.PRICE_SCALE):
            record.price_scale = value
        else:
            record.quantity_scale = value
    return answer(
        b, outbox, count, fault, INSTRUMENT, instrument, parameter, value, account, command
    )


@kernel
def state_after(state, action):
    """The state an action leads to, UNDEFINED if it may not be taken from here."""
    if action == U(Action.OPEN) and state == U(InstrumentState.CLOSED):
        return U(InstrumentState.OPEN)
    if action == U(Action.HALT) and state == U(InstrumentState.OPEN):
        return U(InstrumentState.HALTED)
    if action == U(Action.RESUME) and state == U(InstrumentState.HALTED):
        return U(InstrumentState.OPEN)
    if action == U(Action.CLOSE) and state >= U(InstrumentState.OPEN):
        return U(InstrumentState.CLOSED)
    return U(InstrumentState.UNDEFINED)


@kernel(entry=True)
def set_state(b, words, at, account, command, outbox, count):
    head, value = words[at + U(3)], np.int64(words[at + U(5)])
    instrument, action = head >> U(32), (head >> U(8)) & U(0xFF)
    fault = U(0)
    if account != U(OPERATOR_ACCOUNT):
        fault = U(Reason.NOT_PERMITTED)
    elif (
        instrument >= U(b.instruments.size)
        or b.instruments[instrument].state == InstrumentState.UNDEFINED
    ):
        fault = U(Reason.UNKNOWN_INSTRUMENT)
    elif action < U(Action.OPEN) or action > U(Action.CLOSE):
        fault = U(Reason.INVALID_PARAMETER)
    else:
        after = state_after(U(b.instruments[instrument].state), action)
        if after == U(InstrumentState.UNDEFINED):
            fault = U(Reason.INVALID_TRANSITION)
        else:
            b.instruments[instrument].state = after
            value = np.int64(after)
    return answer(b, outbox, count, fault, STATE, instrument, action, value, account, command)
