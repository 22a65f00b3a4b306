"""Single faults, exhaustively: each is refused, or loses nothing.

What may be lost without a word is a record at the end of the report log: its command makes it
again, byte for byte. Damage to the very last command looks like a torn tail; what tells it from
one is that the report log answers it. At level `process`, without a watermark, the rule cannot see
damage to a last command that has no report yet. Nobody was told of such a command.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from matchbox.checksum import crc32c
from matchbox.errors import LogRefused
from matchbox.schema import SEGMENT_LAYOUT
from matchbox.wal.directory import LogDirectory
from tests.wal.logs import LIMITS, SLOTS, content, write

HEADER, SLOT, SECTOR = 4096, 64, 512
RECORDS = 8


class Sound:
    """A log of two segments a kind; its files' bytes, and what is in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write(folder, RECORDS, RECORDS + 1, answering=True)
        write(folder, RECORDS, RECORDS + 1, answering=True)
        self.bytes = {path: path.read_bytes() for path in sorted(folder.glob("*.log"))}
        with LogDirectory(folder, LIMITS) as directory:
            self.rows = {s.kind: content(s) for s in (directory.commands, directory.reports)}

    def end(self, path: Path) -> int:
        """Offset behind the last byte that was written."""
        data = self.bytes[path].rstrip(b"\0")
        return HEADER + -(-(len(data) - HEADER) // SLOT) * SLOT

    def outcome(self, path: Path, data: bytes) -> str:
        """Open the log with `data` in the place of a file.

        refused; whole: nothing is lost; remade: reports at the end are, or SILENT.
        """
        path.write_bytes(data)
        try:
            with LogDirectory(self.folder, LIMITS) as directory:
                lost = []
                for segments in (directory.commands, directory.reports):
                    rows, sound = content(segments), self.rows[segments.kind]
                    if not np.array_equal(rows, sound[: len(rows)]):
                        return "SILENT"
                    lost.append(len(sound) - len(rows))
                return "SILENT" if lost[0] else "remade" if lost[1] else "whole"
        except LogRefused as error:
            assert str(self.folder) in str(error)
            return "refused"
        finally:
            path.write_bytes(self.bytes[path])

    def expected(self, path: Path, changed: bytes) -> str:
        """What must come of `changed` in the place of a file, of the same size."""
        rows = (np.frombuffer(data, np.uint8) for data in (self.bytes[path], changed))
        slot = int(np.flatnonzero(np.not_equal(*rows))[0]) // SLOT * SLOT
        if path == max(p for p in self.bytes if p.name[:4] == path.name[:4]):
            nothing_behind = not any(changed[slot + SLOT :])
            if slot == self.end(path) and nothing_behind:
                return "whole"  # a torn record behind the last
            if (
                HEADER < slot < self.end(path)
                and nothing_behind
                and path.name.startswith("reports")
            ):
                return "remade"
        return "refused"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sound]:
    folder = tmp_path_factory.mktemp("sound")
    yield Sound(folder)
    shutil.rmtree(folder)


def test_the_log_is_sound(sound: Sound) -> None:
    assert len(sound.bytes) == 4
    for path, data in sound.bytes.items():
        assert sound.outcome(path, data) == "whole"


def test_a_bit_flipped_in_every_byte(sound: Sound) -> None:
    for path, data in sound.bytes.items():
        used = SEGMENT_LAYOUT.offsets()["build"] + 16
        offsets = [*range(used), HEADER - 4, HEADER - 1, *range(HEADER, sound.end(path) + SLOT)]
        for offset in offsets:
            damaged = bytearray(data)
            damaged[offset] ^= 1 << offset % 8
            expected = sound.expected(path, bytes(damaged))
            assert sound.outcome(path, bytes(damaged)) == expected, (path.name, offset)


def test_truncation_at_every_slot(sound: Sound) -> None:
    for path, data in sound.bytes.items():
        for size in range(0, sound.end(path) + 2 * SLOT, SLOT):
            assert sound.outcome(path, data[:size]) == "refused", (path.name, size)


FAULTS: dict[str, Callable[[bytes, bytes], tuple[bytes, bytes]]] = {
    "zeroed": lambda one, two: (bytes(len(one)), two),
    "doubled": lambda one, two: (one, one),
    "swapped": lambda one, two: (two, one),
}


@pytest.mark.parametrize("grain", [SLOT, SECTOR])
@pytest.mark.parametrize("how", FAULTS)
def test_slots_and_sectors_that_are_not_where_they_belong(
    sound: Sound, how: str, grain: int
) -> None:
    """Any two of those in use, and one that is not; header sectors too."""
    for path, data in sound.bytes.items():
        start = HEADER if grain == SLOT else 0
        places = range(start, sound.end(path) + grain, grain)
        for here in places:
            for there in places:
                one, two = data[here : here + grain], data[there : there + grain]
                changed = bytearray(data)
                if here == there:
                    continue
                changed[here : here + grain], changed[there : there + grain] = FAULTS[how](one, two)
                if changed == data:
                    continue
                expected = sound.expected(path, bytes(changed))
                found = sound.outcome(path, bytes(changed))
                assert found == expected, (path.name, here, there)


@pytest.mark.parametrize("grain", [SLOT, SECTOR])
def test_stale_slots_and_sectors(sound: Sound, tmp_path: Path, grain: int) -> None:
    """Of another log of the same shape: its records fit nowhere here."""
    write(tmp_path, RECORDS, RECORDS + 1, answering=True)
    write(tmp_path, RECORDS, RECORDS + 1, answering=True)
    for path, data in sound.bytes.items():
        stale = (tmp_path / path.name).read_bytes()
        for start in range(0, sound.end(path), grain):
            changed = data[:start] + stale[start : start + grain] + data[start + grain :]
            if changed != data:
                expected = sound.expected(path, changed)
                assert sound.outcome(path, changed) == expected, (path.name, start)


def test_files_that_are_missing_doubled_or_foreign(sound: Sound, tmp_path: Path) -> None:
    first, second = sorted(p for p in sound.bytes if p.name.startswith("commands"))
    assert sound.outcome(first, sound.bytes[second]) == "refused"
    assert sound.outcome(second, sound.bytes[first]) == "refused"
    reports = first.with_name(first.name.replace("commands", "reports"))
    assert sound.outcome(first, sound.bytes[reports]) == "refused"
    for path in (first, second, reports):
        path.rename(tmp_path / "away")
        with pytest.raises(LogRefused, match="missing"):
            LogDirectory(sound.folder, LIMITS)
        (tmp_path / "away").rename(path)
    for path, data in sound.bytes.items():
        block = np.frombuffer(data[:HEADER], SEGMENT_LAYOUT.dtype()).copy()
        block["log_uuid"] = np.void(bytes(range(16)))
        block["checksum"] = crc32c(block.tobytes()[: HEADER - 4])
        assert sound.outcome(path, block.tobytes() + data[HEADER:]) == "refused"


HEADER_FIELDS: dict[str, Callable[[int], int]] = {
    "major": lambda value: value + 1,
    "kind": lambda value: 3 - value,
    "incompatible": lambda value: 1,
    "read_compatible": lambda value: 1,
    "segment": lambda value: value + 1,
    "segment_bytes": lambda value: value * 2,
    "slot_bytes": lambda value: 128,
    "shard": lambda value: 1,
    "reserved": lambda value: 1,
}


@pytest.mark.parametrize("field", HEADER_FIELDS)
def test_a_header_that_says_something_else(sound: Sound, field: str) -> None:
    """With a checksum that is right: the field itself is refused, by name and offset."""
    path = min(sound.bytes)
    block = np.frombuffer(sound.bytes[path][:HEADER], SEGMENT_LAYOUT.dtype()).copy()
    block[field] = HEADER_FIELDS[field](int(block[field][0]))
    block["checksum"] = crc32c(block.tobytes()[: HEADER - 4])
    path.write_bytes(block.tobytes() + sound.bytes[path][HEADER:])
    try:
        offset = SEGMENT_LAYOUT.offsets()[field]
        with pytest.raises(LogRefused, match=f"offset {offset}: {field} is"):
            LogDirectory(sound.folder, LIMITS)
    finally:
        path.write_bytes(sound.bytes[path])


def test_a_file_that_is_no_segment(sound: Sound) -> None:
    path = min(sound.bytes)
    for data, told in [
        (b"", "0 bytes: expected a header"),
        (bytes(len(sound.bytes[path])), "offset 0: magic is"),
        (b"X" + sound.bytes[path][1:], "offset 0: magic is"),
        (sound.bytes[path][: HEADER - 4] + bytes(4) + sound.bytes[path][HEADER:], "offset 4092"),
        (sound.bytes[path] + b"X", "offset 80: segment_bytes is"),
    ]:
        path.write_bytes(data)
        with pytest.raises(LogRefused) as refused:
            LogDirectory(sound.folder, LIMITS)
        path.write_bytes(sound.bytes[path])
        assert str(refused.value).startswith(f"{path}: ") and told in str(refused.value)


@pytest.mark.parametrize("field", ["minor", "compatible", "created_ns", "build"])
def test_a_header_with_what_a_reader_need_not_know(sound: Sound, field: str) -> None:
    for path, data in sound.bytes.items():
        block = np.frombuffer(data[:HEADER], SEGMENT_LAYOUT.dtype()).copy()
        block[field] = 7
        block["checksum"] = crc32c(block.tobytes()[: HEADER - 4])
        assert sound.outcome(path, block.tobytes() + data[HEADER:]) == "whole"


def test_torn_tails_are_set_aside_and_the_log_goes_on(tmp_path: Path) -> None:
    for torn_bytes in (1, 7, 8, 63):
        folder = tmp_path / str(torn_bytes)
        write(folder, RECORDS, 0)
        (path,) = folder.glob("commands-*.log")
        data = bytearray(path.read_bytes())
        end = HEADER + SLOT * (RECORDS + 2)  # behind link, genesis and records
        data[end : end + torn_bytes] = b"\xff" * torn_bytes
        path.write_bytes(bytes(data))
        write(folder, SLOTS, 1)
        (aside,) = folder.glob("*.torn")
        assert aside.read_bytes()[:torn_bytes] == b"\xff" * torn_bytes
        with LogDirectory(folder, LIMITS) as directory:
            assert directory.commands.sequence == 1 + RECORDS + SLOTS


def test_segments_made_ready_and_never_used(tmp_path: Path) -> None:
    """A crash leaves those behind: they are dropped, and their numbers used again."""
    write(tmp_path, 3, 3)
    directory = LogDirectory(tmp_path, LIMITS)
    directory.start("test", 1 << 16, ahead=3)
    preparer = directory.preparer
    assert preparer is not None
    preparer.stopping.set()
    preparer.thread.join()
    directory.preparer = None  # as if killed: nothing is tidied up
    directory.close()
    assert len(list(tmp_path.glob("*.log"))) == 2 + 6
    write(tmp_path, 3, 3)
    assert len(list(tmp_path.glob("*.log"))) == 4
    with LogDirectory(tmp_path, LIMITS) as again:
        assert (again.commands.sequence, again.reports.sequence) == (7, 6)
