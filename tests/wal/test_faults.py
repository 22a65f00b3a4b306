"""Single faults, exhaustively: each is refused, or loses only what nobody can tell from torn.

At level `process`, without a watermark, one thing cannot be seen in the command log alone: damage
to its very last record, with nothing behind it, looks like a torn tail. The report log is then
ahead, and recovery refuses (tests/test_exchange.py).
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from matchbox.errors import LogRefused
from matchbox.schema import SEGMENT_LAYOUT
from matchbox.wal.crc import crc32c
from matchbox.wal.directory import LogDirectory
from tests.wal.logs import LIMITS, SLOTS, content, write

HEADER, SLOT = 4096, 64
RECORDS = 8


class Sound:
    """A log of two segments a kind; its files' bytes, and what is in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write(folder, RECORDS, RECORDS + 1)
        write(folder, RECORDS, RECORDS + 1)
        self.bytes = {path: path.read_bytes() for path in sorted(folder.glob("*.log"))}
        with LogDirectory(folder, LIMITS) as directory:
            self.rows = {s.kind: content(s) for s in (directory.commands, directory.reports)}

    def end(self, path: Path) -> int:
        """Offset behind the last byte that was written."""
        data = self.bytes[path].rstrip(b"\0")
        return HEADER + -(-(len(data) - HEADER) // SLOT) * SLOT

    def outcome(self, path: Path, data: bytes) -> str:
        """Open the log with `data` in the place of a file: refused, torn, whole or SILENT."""
        path.write_bytes(data)
        try:
            with LogDirectory(self.folder, LIMITS) as directory:
                lost = 0
                for segments in (directory.commands, directory.reports):
                    rows, sound = content(segments), self.rows[segments.kind]
                    if not np.array_equal(rows, sound[: len(rows)]):
                        return "SILENT"
                    lost += len(sound) - len(rows)
                    if len(rows) < len(sound) and segments.torn is None:
                        return "SILENT"
                return "torn" if lost else "whole"
        except LogRefused as error:
            assert str(self.folder) in str(error)
            return "refused"
        finally:
            path.write_bytes(self.bytes[path])


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sound]:
    folder = tmp_path_factory.mktemp("sound")
    yield Sound(folder)
    shutil.rmtree(folder)


def last_of_its_log(sound: Sound, path: Path, offset: int) -> bool:
    """Whether a byte belongs to the last record of the last segment."""
    last = max(p for p in sound.bytes if p.name[:4] == path.name[:4])
    return path == last and sound.end(path) - SLOT <= offset < sound.end(path)


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
            found = sound.outcome(path, bytes(damaged))
            if last_of_its_log(sound, path, offset):
                assert found == "torn", (path.name, offset)
            elif offset >= sound.end(path) and path == max(
                p for p in sound.bytes if p.name[:4] == path.name[:4]
            ):
                assert found == "whole", (path.name, offset)  # a torn record behind the last
            else:
                assert found == "refused", (path.name, offset)


def test_truncation_at_every_slot(sound: Sound) -> None:
    for path, data in sound.bytes.items():
        for size in range(0, sound.end(path) + 2 * SLOT, SLOT):
            assert sound.outcome(path, data[:size]) == "refused", (path.name, size)


def slots_changed(data: bytes, slot: int, other: int, how: str) -> bytes:
    rows = bytearray(data)
    here, there = (HEADER + SLOT * i for i in (slot, other))
    one, two = bytes(rows[here : here + SLOT]), bytes(rows[there : there + SLOT])
    match how:
        case "zeroed":
            rows[here : here + SLOT] = bytes(SLOT)
        case "doubled":
            rows[there : there + SLOT] = one
        case "swapped":
            rows[here : here + SLOT], rows[there : there + SLOT] = two, one
    return bytes(rows)


@pytest.mark.parametrize("how", ["zeroed", "doubled", "swapped"])
def test_slots_that_are_not_where_they_belong(sound: Sound, how: str) -> None:
    for path, data in sound.bytes.items():
        used = (sound.end(path) - HEADER) // SLOT
        for slot in range(used):
            for other in range(used):
                if slot == other:
                    continue
                changed = slots_changed(data, slot, other, how)
                if changed == data:
                    continue
                found = sound.outcome(path, changed)
                zeroed_last = how == "zeroed" and last_of_its_log(sound, path, HEADER + SLOT * slot)
                doubled_last = how == "doubled" and last_of_its_log(
                    sound, path, HEADER + SLOT * other
                )
                if zeroed_last:
                    # Nothing is left of it: the report log, or the watermark to come, must tell.
                    assert found == "SILENT"
                elif doubled_last:
                    assert found == "torn", (path.name, slot, other)
                else:
                    assert found == "refused", (path.name, slot, other)


def test_stale_sectors(sound: Sound, tmp_path: Path) -> None:
    """A sector of another log of the same shape: its records fit nowhere here."""
    write(tmp_path, RECORDS, RECORDS + 1)
    write(tmp_path, RECORDS, RECORDS + 1)
    for path, data in sound.bytes.items():
        stale = (tmp_path / path.name).read_bytes()
        for start in range(0, sound.end(path), 512):
            changed = data[:start] + stale[start : start + 512] + data[start + 512 :]
            if changed == data:
                continue
            assert sound.outcome(path, changed) in ("refused", "torn"), (path.name, start)
            if start + 512 < sound.end(path):
                assert sound.outcome(path, changed) == "refused"


def test_files_that_are_missing_doubled_or_foreign(sound: Sound, tmp_path: Path) -> None:
    first, second = sorted(p for p in sound.bytes if p.name.startswith("commands"))
    assert sound.outcome(first, sound.bytes[second]) == "refused"
    assert sound.outcome(second, sound.bytes[first]) == "refused"
    reports = first.with_name(first.name.replace("commands", "reports"))
    assert sound.outcome(first, sound.bytes[reports]) == "refused"
    first.rename(tmp_path / "away")
    with pytest.raises(LogRefused, match="missing"):
        LogDirectory(sound.folder, LIMITS)
    (tmp_path / "away").rename(first)


HEADER_FIELDS: dict[str, Callable[[int], int]] = {
    "major": lambda value: value + 1,
    "kind": lambda value: 3 - value,
    "incompatible": lambda value: 1,
    "read_compatible": lambda value: 1,
    "segment": lambda value: value + 1,
    "segment_bytes": lambda value: value * 2,
    "slot_bytes": lambda value: 128,
    "shard": lambda value: 1,
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
