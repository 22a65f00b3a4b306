"""One segment file: `<kind>-<number:016x>.log`, a header block and slots of 64 bytes. Plain Python.

A segment is made whole before it has its name: allocated (so that a full disk is met here and
never by a store), its header written, synced, renamed, its folder synced. What is not yet used
reads as zeros.
"""

import contextlib
import ctypes
import errno
import mmap
import os
import re
import secrets
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from matchbox.checksum import crc32c
from matchbox.errors import LogRefused
from matchbox.memory import MADV_POPULATE_WRITE, address_of
from matchbox.schema import RECORD_BYTES, SEGMENT, SEGMENT_LAYOUT

MAGIC, MAJOR, MINOR = b"MATCHLOG", 1, 0
HEADER_BYTES = SEGMENT_LAYOUT.size
CHECKSUM_AT = SEGMENT_LAYOUT.offsets()["checksum"]
TEMPORARY = ".tmp"
KINDS = {"commands": 1, "reports": 2}
SEGMENT_BYTES_DEFAULT = 64 << 20
SEGMENT_BYTES_MIN = 1 << 16
NAME = re.compile(r"(commands|reports)-([0-9a-f]{16})\.log")
HEADER_WORDS = HEADER_BYTES // 8
POPULATE_BYTES = 1 << 22
"""Touched at a time: Python's other threads wait meanwhile, a millisecond."""
LIBC = ctypes.CDLL(None)
FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE = 1, 2


class Identity(NamedTuple):
    """What all segments of one log share."""

    uuid: bytes  # 16
    boot_id: bytes  # 16: of this start of the machine
    build: bytes  # digest of the compiled sources, 16 characters


def name_of(kind: str, number: int) -> str:
    return f"{kind}-{number:016x}.log"


def boot_id() -> bytes:
    """Names this start of the machine; zeros where the system does not tell."""
    try:
        text = Path("/proc/sys/kernel/random/boot_id").read_text()
        return bytes.fromhex(text.strip().replace("-", ""))
    except (OSError, ValueError):
        return bytes(16)


def header(kind: str, number: int, size: int, identity: Identity) -> np.ndarray:
    """A segment's first block, as one SEGMENT record."""
    block = np.zeros((), SEGMENT)
    block["magic"], block["major"], block["minor"], block["kind"] = MAGIC, MAJOR, MINOR, KINDS[kind]
    block["log_uuid"], block["boot_id"] = np.void(identity.uuid), np.void(identity.boot_id)
    block["build"] = identity.build
    block["segment"], block["segment_bytes"], block["slot_bytes"] = number, size, RECORD_BYTES
    block["salt"] = secrets.randbits(32)
    block["created_ns"] = time.time_ns()
    block["checksum"] = crc32c(block.tobytes()[:CHECKSUM_AT])
    return block


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def create(folder: Path, kind: str, number: int, size: int, identity: Identity) -> int:
    """Make a segment on disk, under its name. Returns its salt. Raises OSError."""
    block = header(kind, number, size, identity)
    path = folder / name_of(kind, number)
    temporary = path.with_suffix(TEMPORARY)
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        os.posix_fallocate(descriptor, 0, size)
        if os.pwrite(descriptor, block.tobytes(), 0) != HEADER_BYTES:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.fsync(descriptor)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
    temporary.rename(path)
    sync_folder(folder)
    return int(block["salt"])


class Mapping:
    """A segment mapped into memory, all of it: `words` is its u64 view, header included."""

    def __init__(self, path: Path, writable: bool) -> None:
        self.path = path
        with path.open("r+b" if writable else "rb") as file:
            # Kernels are compiled for arrays that can be written; a copy-on-write view of a file
            # is one.
            access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_COPY
            self.map = mmap.mmap(file.fileno(), 0, access=access)
        self.words = np.frombuffer(self.map, np.uint64)
        if writable:
            self.touch()

    def touch(self) -> None:
        """Have every page there, so that no store faults.

        After the sync of its zeros, else every first store faults a second time.
        """
        try:
            for start in range(0, len(self.map), POPULATE_BYTES):
                size = min(POPULATE_BYTES, len(self.map) - start)
                self.map.madvise(MADV_POPULATE_WRITE, start, size)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            pages = self.words[:: mmap.PAGESIZE // 8]  # Linux before 5.14
            pages[:] = pages.copy()

    @property
    def slots_address(self) -> int:
        return address_of(self.words) + HEADER_BYTES

    @property
    def slot_count(self) -> int:
        return (self.words.size - HEADER_WORDS) * 8 // RECORD_BYTES

    def close(self) -> None:
        """Unmap; if a view of `words` is still about, when that goes."""
        del self.words
        with contextlib.suppress(BufferError):
            self.map.close()


def trim(path: Path, slots: int) -> None:
    """Give the space behind the first `slots` back; the file keeps its size and reads as zeros
    there."""
    used = HEADER_BYTES + slots * RECORD_BYTES
    offset = -(-used // mmap.PAGESIZE) * mmap.PAGESIZE
    with path.open("r+b") as file:
        size = os.fstat(file.fileno()).st_size
        if offset < size:  # best effort: not every file system can
            mode = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
            LIBC.fallocate(
                file.fileno(), mode, ctypes.c_int64(offset), ctypes.c_int64(size - offset)
            )


def read_header(path: Path, kind: str, number: int) -> np.ndarray:
    """Read and check a segment's header. Raises LogRefused with the field and what was expected."""
    size = path.stat().st_size
    if size < HEADER_BYTES + RECORD_BYTES:
        raise LogRefused(f"{path}: {size} bytes: expected a header of {HEADER_BYTES} and a link")
    with path.open("rb") as file:
        block = np.frombuffer(file.read(HEADER_BYTES), SEGMENT)[0]

    def expect(field: str, good: bool, expected: object) -> None:
        if not good:
            offset = SEGMENT_LAYOUT.offsets()[field]
            raise LogRefused(
                f"{path}: offset {offset}: {field} is {block[field]!r}: expected {expected}"
            )

    expect("magic", block["magic"] == MAGIC, MAGIC)
    computed = crc32c(block.tobytes()[:CHECKSUM_AT])
    expect("checksum", int(block["checksum"]) == computed, f"{computed}: the header is damaged")
    expect("major", block["major"] == MAJOR, f"{MAJOR}, the format this version reads")
    expect("incompatible", block["incompatible"] == 0, "no feature that this version does not know")
    expect("read_compatible", block["read_compatible"] == 0, "no feature this version cannot write")
    expect("kind", block["kind"] == KINDS[kind], f"{KINDS[kind]}, as its name says")
    expect("segment", block["segment"] == number, f"{number}, as its name says")
    expect("slot_bytes", block["slot_bytes"] == RECORD_BYTES, RECORD_BYTES)
    expect("shard", block["shard"] == 0, 0)
    expect("segment_bytes", block["segment_bytes"] == size, f"{size}, the size of the file")
    expect("segment_bytes", size % RECORD_BYTES == 0, f"a multiple of {RECORD_BYTES}")
    expect("reserved", block["reserved"] == 0, 0)
    return block
