"""Captures: nothing that happened to a file goes unnoticed, and nothing half written appears."""

import os
from pathlib import Path

import numpy as np
import pytest
from crcmod import mkCrcFun
from hypothesis import given
from hypothesis import strategies as st

from matchbox.constants import CommandType
from matchbox.decode import capture
from matchbox.errors import BadInput, Unavailable
from matchbox.generate import session
from matchbox.schema import CAPTURE, RECORD

RECORDS = session(40, seed=11)
HEADER, RECORD_BYTES = CAPTURE.itemsize, RECORD.itemsize


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("capture") / "session.mbc"
    capture.write(path, RECORDS)
    return path.read_bytes()


def decode(data: bytes) -> np.ndarray:
    return capture.decode(np.frombuffer(data, np.uint8), "session.mbc")


def test_round_trip(whole: bytes) -> None:
    assert decode(whole).tobytes() == RECORDS.tobytes()
    assert len(whole) == HEADER + 40 * RECORD_BYTES


def test_nothing(tmp_path: Path) -> None:
    capture.write(tmp_path / "none.mbc", RECORDS[:0])
    assert decode((tmp_path / "none.mbc").read_bytes()).size == 0


def test_written_in_parts_it_is_the_same_file(tmp_path: Path, whole: bytes) -> None:
    with capture.Writer(tmp_path / "parts.mbc") as writer:
        for part in (RECORDS[:7], RECORDS[7:7], RECORDS[7:]):
            writer.append(part)
        assert writer.count == 40
    assert (tmp_path / "parts.mbc").read_bytes() == whole


def test_accounts_are_kept_and_logins_are_not(tmp_path: Path) -> None:
    records = RECORDS.copy()
    records["account"], records["checksum"], records["command_sequence"] = 5, 77, 99
    records["login"][records["type"] == CommandType.ENTER] = 77
    capture.write(tmp_path / "live.mbc", records)
    read = decode((tmp_path / "live.mbc").read_bytes())
    assert (read["account"] == 5).all()
    read["account"] = 0
    assert read.tobytes() == RECORDS.tobytes()


def test_the_chain_is_what_the_layout_says(whole: bytes) -> None:
    def crc(data: bytes, seed: int) -> int:
        return mkCrcFun(0x11EDC6F41, initCrc=seed, rev=True, xorOut=0)(data)

    header = np.frombuffer(whole, CAPTURE, 1)[0]
    assert header["checksum"] == crc(whole[:60] + bytes(4), 0)
    chain = crc(whole[:16], 0)
    for at in range(HEADER, len(whole), RECORD_BYTES):
        chain = crc(whole[at + 4 : at + RECORD_BYTES], chain)
        assert np.frombuffer(whole, "<u4", 1, at)[0] == chain
    assert header["chain"] == chain


@given(st.integers(0, (HEADER + 40 * RECORD_BYTES) * 8 - 1))
def test_every_flipped_bit_is_found(whole: bytes, bit: int) -> None:
    flipped = bytearray(whole)
    flipped[bit // 8] ^= 1 << bit % 8
    with pytest.raises(BadInput) as error:
        decode(bytes(flipped))
    if bit // 8 >= HEADER:
        record = (bit // 8 - HEADER) // RECORD_BYTES
        assert f"record {record + 1} at offset {HEADER + record * RECORD_BYTES}" in str(error.value)


@given(st.integers(0, HEADER + 40 * RECORD_BYTES - 1))
def test_every_truncation_is_found(whole: bytes, end: int) -> None:
    with pytest.raises(BadInput, match="truncated: .*expected"):
        decode(whole[:end])


@given(st.permutations(range(40)).filter(lambda order: order != sorted(order)))
def test_every_other_order_of_records_is_found(whole: bytes, order: list[int]) -> None:
    records = [whole[HEADER + i * RECORD_BYTES :][:RECORD_BYTES] for i in order]
    with pytest.raises(BadInput, match="damaged: record"):
        decode(whole[:HEADER] + b"".join(records))


def test_trailing_bytes(whole: bytes) -> None:
    with pytest.raises(
        BadInput, match="trailing bytes: ends at 2625, expected 2624 for 40 records"
    ):
        decode(whole + b"\0")


def changed(whole: bytes, field: str, value: object) -> bytes:
    """The file with another header that is right in itself."""
    header = np.frombuffer(whole, CAPTURE, 1).copy()
    header[field], header["checksum"] = value, 0
    header["checksum"] = capture.crc32c(header.tobytes())
    return header.tobytes() + whole[HEADER:]


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("magic", b"MATCHLOG", "offset 0: magic b'MATCHLOG', expected b'MATCHCAP'"),
        ("major", 2, "offset 8: version 2, expected 1"),
        ("record_bytes", 128, "offset 0: the header is damaged"),
        ("count", 39, "trailing bytes: ends at 2624, expected 2560"),
        ("count", 2**63, "truncated: ends at 2624, expected"),
        ("chain", 1, "offset 64: these are not the records that the header names"),
        ("minor", 1, "damaged: record 1 "),  # part of the seed
    ],
)
def test_another_header(whole: bytes, field: str, value: object, told: str) -> None:
    with pytest.raises(BadInput, match=f"^session.mbc: {told}"):
        decode(changed(whole, field, value))


def test_a_type_made_inside_cannot_come_from_outside(tmp_path: Path) -> None:
    records = RECORDS.copy()
    records["type"][3] = CommandType.GENESIS
    with pytest.raises(ValueError, match="command 3: expected one of 1 enter"):
        capture.write(tmp_path / "inside.mbc", records)
    assert not os.listdir(tmp_path)


def test_after_an_error_what_was_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "session.mbc"
    path.write_bytes(b"before")
    with pytest.raises(RuntimeError), capture.Writer(path) as writer:
        writer.append(RECORDS)
        raise RuntimeError
    assert os.listdir(tmp_path) == ["session.mbc"]
    assert path.read_bytes() == b"before"


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="No such file or directory"):
        capture.write(tmp_path / "missing" / "session.mbc", RECORDS)
