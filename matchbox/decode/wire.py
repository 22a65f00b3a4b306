"""The bytes a client sends, in a file: messages end to end, 16 bytes of a cancel, 40 of any other.
Plain Python.

Where a message begins is known only from the one before, so the boundaries are found one by one;
everything else is done for all messages at once. Such a file has no times: they are 0.
"""

import numpy as np

from matchbox.constants import CLIENT_TYPES, CommandType
from matchbox.decode.contents import Progress
from matchbox.errors import BadInput
from matchbox.schema import CANCEL_BYTES, COMMAND_BYTES, RECORD, RECORD_BYTES

WORD_BYTES = 8
RECORD_WORDS = RECORD_BYTES // WORD_BYTES
COMMAND_WORDS = COMMAND_BYTES // WORD_BYTES
CANCEL_WORDS = CANCEL_BYTES // WORD_BYTES
FIRST_WORD = RECORD_WORDS - COMMAND_WORDS  # of the command in its record

BLOCK_MESSAGES = 1 << 18

SIZES = bytes(
    0 if code not in CLIENT_TYPES else CANCEL_WORDS if code == CommandType.CANCEL else COMMAND_WORDS
    for code in range(256)
)
"""Words of a message by its first byte; 0: no message begins with it."""

assert COMMAND_BYTES % WORD_BYTES == 0 and CANCEL_BYTES % WORD_BYTES == 0


def encode(records: np.ndarray) -> bytes:
    """What a TCP client sends for these commands.

    Args:
        records: RECORD[n] or COMMAND[n].
    """
    first = FIRST_WORD if records.dtype == RECORD else 0
    words = np.ascontiguousarray(records).view("<u8").reshape(-1, first + COMMAND_WORDS)[:, first:]
    cancels = records["type"] == CommandType.CANCEL
    sizes = np.where(cancels, CANCEL_WORDS, COMMAND_WORDS)
    starts = np.cumsum(sizes) - sizes
    out = np.empty(int(sizes.sum()), "<u8")
    for word in range(CANCEL_WORDS):
        out[starts + word] = words[:, word]
    whole = np.flatnonzero(~cancels)
    for word in range(CANCEL_WORDS, COMMAND_WORDS):
        out[starts[whole] + word] = words[whole, word]
    return out.tobytes()


def decode(
    data: bytes | np.ndarray, name: str = "wire", progress: Progress | None = None
) -> np.ndarray:
    """The commands in a client's bytes.

    Args:
        data: bytes or u8[size].
        name: of the source, for errors.
        progress: called with (bytes done, bytes in all).
    Returns:
        RECORD[n], login, account and time 0.
    Raises:
        BadInput: a type byte that is no client's, or an end inside a message; says at which offset.
    """
    octets = np.frombuffer(data, np.uint8)
    starts = boundaries(octets, name, progress)
    words = np.zeros(octets.size // WORD_BYTES + COMMAND_WORDS - CANCEL_WORDS, "<u8")
    words[: octets.size // WORD_BYTES] = octets.view("<u8")
    records = np.zeros(starts.size, RECORD)
    rows = records.view("<u8").reshape(-1, RECORD_WORDS)
    for word in range(COMMAND_WORDS):
        rows[:, FIRST_WORD + word] = words[starts + word]
    rows[records["type"] == CommandType.CANCEL, FIRST_WORD + CANCEL_WORDS :] = 0
    clear_logins(records)
    return records


def boundaries(octets: np.ndarray, name: str, progress: Progress | None) -> np.ndarray:
    """i64[n]: the word at which each message begins."""
    sizes = octets[::WORD_BYTES].tobytes().translate(SIZES)
    end = octets.size // WORD_BYTES  # a last word that is cut off begins no whole message
    blocks, at, last = [], 0, 0
    while at < end:
        block: list[int] = []
        while at < end and len(block) < BLOCK_MESSAGES:
            block.append(at)
            last = at
            at += sizes[at]
            if at == last:
                raise no_message(int(octets[at * WORD_BYTES]), at * WORD_BYTES, name)
        blocks.append(np.array(block, np.int64))
        if progress:
            progress(min(at * WORD_BYTES, octets.size), octets.size)
    if at == end and octets.size % WORD_BYTES:
        if not sizes[at]:
            raise no_message(int(octets[at * WORD_BYTES]), at * WORD_BYTES, name)
        last, at = at, at + sizes[at]
    if at * WORD_BYTES != octets.size:
        raise BadInput(
            f"{name}: truncated: the message at offset {last * WORD_BYTES} ends at {octets.size}, "
            f"expected {at * WORD_BYTES}"
        )
    return np.concatenate([np.empty(0, np.int64), *blocks])


def no_message(code: int, offset: int, name: str) -> BadInput:
    return BadInput(
        f"{name}: offset {offset}: no message begins with byte {code}, {expected_types()}"
    )


def expected_types() -> str:
    return "expected one of " + ", ".join(f"{code} {code.name.lower()}" for code in CLIENT_TYPES)


def clear_logins(records: np.ndarray) -> None:
    """Only the decoder of a connection knows a login: nobody may claim one in a file."""
    records["login"][records["type"] == CommandType.ENTER] = 0
