"""Files of every format, packed or not, and everything that can be wrong with one."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zstandard

from matchbox.decode import capture, contents, files, wire, workload
from matchbox.errors import BadInput
from matchbox.generate import session
from matchbox.schema import RECORD

RECORDS = session(300, seed=21)
CSV = b"34200.5,1,7,18,5853300,1\n34200.6,3,7,18,5853300,1\n"
DAY_NS = 86_400 * 10**9


def capture_file() -> bytes:
    header = capture.header_of(0, 0).tobytes()
    words = RECORDS.view("<u8").reshape(-1)
    sealed = np.empty_like(words)
    seed = np.uint64(capture.crc32c(header[: capture.SEED_BYTES]))
    chain = capture.seal(words, sealed, np.uint64(1), seed)
    return capture.header_of(RECORDS.size, int(chain)).tobytes() + sealed.tobytes()


def workload_file() -> bytes:
    messages = np.zeros(3, workload.MESSAGE)
    messages["quantity"] = messages["order_id"] = [1, 2, 3]
    return np.array([(workload.MAGIC, 1, 3)], workload.HEADER).tobytes() + messages.tobytes()


CONTENTS = {
    "capture": (capture_file, len(RECORDS)),
    "workload": (workload_file, 3),
    "lobster": (lambda: CSV, 2),
    "wire": (lambda: wire.encode(RECORDS), len(RECORDS)),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("format", CONTENTS)
def test_every_format_is_recognised(tmp_path: Path, format: str, packed: bool) -> None:
    make, count = CONTENTS[format]
    data = zstandard.compress(make()) if packed else make()
    path = tmp_path / ("commands.zst" if packed else "commands")
    path.write_bytes(data)
    records = files.read(path)
    assert records.dtype == RECORD
    assert records.size == count
    assert not records["checksum"].any()
    assert not records["command_sequence"].any()
    assert files.read(str(path), format).tobytes() == records.tobytes()


@pytest.mark.parametrize("format", [format for format in CONTENTS if format != "lobster"])
def test_every_truncation_is_refused(tmp_path: Path, format: str) -> None:
    whole = CONTENTS[format][0]()[: 64 * 4]
    path = tmp_path / "commands"
    for end in range(1, 100):
        path.write_bytes(whole[:end])
        if format == "wire" and end in (40, 56, 80, 96):
            continue  # may be whole messages
        with pytest.raises(BadInput, match=f"{path}: truncated: "):
            files.read(path)


def test_lobster_options(tmp_path: Path) -> None:
    path = tmp_path / "X_1970-01-03_message_1.csv"
    path.write_bytes(CSV.replace(b",1,7", b",4,7"))
    assert files.read(path)["time_ns"][0] == 2 * DAY_NS + 34_200_500_000_000
    assert files.read(path, date="1970-01-02")["time_ns"][0] == DAY_NS + 34_200_500_000_000
    assert files.read(path).size == 3
    assert files.read(path, seed="none").size == 2


@pytest.mark.parametrize(
    ("format", "told"),
    [
        ("capture", "offset 0: magic b'hello wo', expected b'MATCHCAP'"),
        ("workload", "offset 0: magic b'hello wo', expected b'100_WBEM'"),
        ("lobster", "1: expected 6 fields, not 1"),
        ("wire", "offset 0: no message begins with byte 104"),
        ("auto", "format not recognised: begins with b'hello wo'"),
    ],
)
def test_another_content(tmp_path: Path, format: str, told: str) -> None:
    path = tmp_path / "hello"
    path.write_bytes(b"hello world " * 20)
    with pytest.raises(BadInput, match=f"^{path}:.?{told}"):
        files.read(path, format)


def test_an_unknown_format(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="format 'xml': expected one of auto, capture, lobster"):
        files.read(tmp_path, "xml")


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"none: No such file or directory, expected a file"):
        files.read(tmp_path / "none")


def test_a_directory(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=f"^{tmp_path}: is a directory, expected a file"):
        files.read(tmp_path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match="pipe: is not a regular file"):
        files.read(tmp_path / "pipe")


@pytest.mark.parametrize("name", ["empty", "empty.csv", "empty.zst"])
def test_an_empty_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(BadInput, match=f"{name}: is empty, expected commands"):
        files.read(tmp_path / name)


def test_an_empty_packed_file(tmp_path: Path) -> None:
    (tmp_path / "empty.zst").write_bytes(zstandard.compress(b""))
    with pytest.raises(BadInput, match=r"empty.zst: is empty, expected commands"):
        files.read(tmp_path / "empty.zst")


class TestZstd:
    def test_several_frames(self, tmp_path: Path) -> None:
        path = tmp_path / "feed.zst"
        data = wire.encode(RECORDS)
        path.write_bytes(
            b"".join(zstandard.compress(data[at : at + 99]) for at in range(0, len(data), 99))
        )
        assert contents.load(path).tobytes() == data

    def test_every_truncation(self, tmp_path: Path) -> None:
        path = tmp_path / "feed.zst"
        packed = zstandard.compress(CSV)
        for end in range(4, len(packed)):
            path.write_bytes(packed[:end])
            with pytest.raises(
                BadInput, match=f"{path}: truncated: ends at {end} inside a zstd frame"
            ):
                files.read(path)

    @pytest.mark.parametrize("damage", [b"\xff" * 20, b"\0" * 20])
    def test_damage(self, tmp_path: Path, damage: bytes) -> None:
        path = tmp_path / "feed.zst"
        path.write_bytes(zstandard.compress(CSV)[:6] + damage)
        with pytest.raises(BadInput, match=f"^{path}: (broken zstd near offset 0|truncated)"):
            files.read(path)

    def test_what_follows(self, tmp_path: Path) -> None:
        path = tmp_path / "feed.zst"
        path.write_bytes(zstandard.compress(CSV) + b"more")
        with pytest.raises(BadInput, match="broken zstd near offset 0"):
            files.read(path)

    def test_a_name_that_lies(self, tmp_path: Path) -> None:
        path = tmp_path / "feed.csv.zst"
        path.write_bytes(CSV)
        with pytest.raises(BadInput, match="offset 0: not a zstd file, which its name says it is"):
            files.read(path)

    def test_what_unpacks_to_too_much(self, tmp_path: Path) -> None:
        path = tmp_path / "bomb.zst"
        path.write_bytes(zstandard.compress(bytes(1 << 26)))
        assert path.stat().st_size < 1 << 14
        with pytest.raises(
            BadInput, match="larger than 1000 bytes, which is the most that is read"
        ):
            files.read(path, bytes_max=1000)


def test_progress(tmp_path: Path) -> None:
    path = tmp_path / "commands.zst"
    path.write_bytes(zstandard.compress(wire.encode(RECORDS)))
    told: list[tuple[int, int]] = []
    files.read(path, progress=lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1]
    shares = [done / total for done, total in told]
    assert shares == sorted(shares)


def test_published_files(shared_data: Callable[[str], Path]) -> None:
    assert files.read(shared_data("workloads/mix63_s7.bin.zst")).size == 1_000_000
    name = "lobster/AAPL_2012-06-21_34200000_37800000_message_50.csv"
    assert files.read(shared_data(name)).size == 89_876
    assert files.read(shared_data(name), seed="none").size == 89_796
