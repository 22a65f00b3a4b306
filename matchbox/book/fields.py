"""The fields of a record (schema.RECORD) where the book reads them. Kernels.

A record is eight words at words[at]; a command's first word is `head`.
"""

import numpy as np

from matchbox.atomics import U
from matchbox.jit import kernel

BYTE, LOW32 = U(0xFF), U(0xFFFFFFFF)


@kernel
def account_of(words, at):
    return words[at] >> U(32)


@kernel
def head_of(words, at):
    return words[at + U(3)]


@kernel
def type_of(head):
    return head & BYTE


@kernel
def side_of(head):
    """Also `parameter` of define and state."""
    return (head >> U(8)) & BYTE


@kernel
def flags_of(head):
    return (head >> U(24)) & BYTE


@kernel
def instrument_of(head):
    return head >> U(32)


@kernel
def order_id_of(words, at):
    return words[at + U(4)]


@kernel
def price_of_command(words, at):
    """Also `value` of define."""
    return np.int64(words[at + U(5)])


@kernel
def quantity_of(words, at):
    """As u64: a negative one is larger than any that is valid."""
    return words[at + U(6)]


@kernel
def group_of(words, at):
    return words[at + U(7)] & LOW32


@kernel
def login_of(words, at):
    """Of an enter."""
    return words[at + U(7)] >> U(32)


@kernel
def new_order_id_of(words, at):
    """Of a replace."""
    return words[at + U(7)]
