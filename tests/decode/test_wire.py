"""A client's bytes in a file: what is written is read, and what is not whole is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchbox.constants import CLIENT_TYPES, CommandType
from matchbox.decode import wire
from matchbox.errors import BadInput
from matchbox.generate import session
from matchbox.schema import COMMAND, RECORD

CANCEL, ENTER = bytes([CommandType.CANCEL]) + bytes(15), bytes([CommandType.ENTER]) + bytes(39)


def without_times(records: np.ndarray) -> np.ndarray:
    records = records.copy()
    records["time_ns"] = 0
    return records


def test_round_trip() -> None:
    records = session(2_000, seed=3, instruments=3)
    decoded = wire.decode(wire.encode(records))
    assert decoded.tobytes() == without_times(records).tobytes()


def test_a_cancel_takes_16_bytes_and_all_others_40() -> None:
    records = session(2_000, seed=4)
    cancels = int((records["type"] == CommandType.CANCEL).sum())
    assert cancels
    assert len(wire.encode(records)) == 16 * cancels + 40 * (2_000 - cancels)


def test_records_and_commands_give_the_same_bytes() -> None:
    records = session(500, seed=5)
    commands = records.view(np.uint8).reshape(-1, RECORD.itemsize)[:, 24:].copy().view(COMMAND)
    assert wire.encode(commands.reshape(-1)) == wire.encode(records)


def test_nothing() -> None:
    assert wire.encode(np.zeros(0, RECORD)) == b""
    assert wire.decode(b"").size == 0


def test_only_a_connection_has_a_login() -> None:
    enter, replace = np.zeros(1, RECORD), np.zeros(1, RECORD)
    enter["type"], enter["group"], enter["login"] = CommandType.ENTER, 7, 9
    replace["type"], replace["new_order_id"] = CommandType.REPLACE, 1 << 40
    decoded = wire.decode(wire.encode(enter) + wire.encode(replace))
    assert decoded["group"][0] == 7
    assert decoded["login"][0] == 0
    assert decoded["new_order_id"][1] == 1 << 40


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (CANCEL + ENTER[:-1], "the message at offset 16 ends at 55, expected 56"),
        (ENTER + CANCEL[:8], "the message at offset 40 ends at 48, expected 56"),
        (ENTER + CANCEL[:1], "the message at offset 40 ends at 41, expected 56"),
        (CANCEL[:3], "the message at offset 0 ends at 3, expected 16"),
        (CANCEL + b"\0" + CANCEL, "offset 16: no message begins with byte 0"),
        (CANCEL + b"\x41" + bytes(15), "offset 16: no message begins with byte 65"),
        (CANCEL + b"\x05", "offset 16: no message begins with byte 5"),
    ],
)
def test_what_is_no_message(data: bytes, told: str) -> None:
    with pytest.raises(BadInput, match=f"^feed: .*{told}"):
        wire.decode(data, "feed")


@given(st.lists(st.sampled_from(CLIENT_TYPES), min_size=1), st.data())
def test_a_prefix_is_whole_messages_or_refused(
    types: list[CommandType], data: st.DataObject
) -> None:
    records = np.zeros(len(types), RECORD)
    records["type"] = types
    whole = wire.encode(records)
    end = data.draw(st.integers(0, len(whole)))
    ends = [len(wire.encode(records[:count])) for count in range(len(types) + 1)]
    if end in ends:
        assert wire.decode(whole[:end]).size == ends.index(end)
    else:
        with pytest.raises(BadInput, match="truncated"):
            wire.decode(whole[:end])


def test_progress_ends_at_the_end() -> None:
    data = wire.encode(session(100))
    told: list[tuple[int, int]] = []
    wire.decode(data, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (len(data), len(data))
