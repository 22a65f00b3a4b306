"""Files of commands, whatever their format, as records. Plain Python.

    path -> load: bytes, unpacked if zstd -> detect -> a format's decode -> RECORD[n]

A file is read whole: it is checked before its first command is executed, so a bad one changes
nothing. What is unpacked is bounded. Every error is a BadInput that names the file, the place in it
and what was expected there.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import zstandard

from matchbox.decode import lobster, lobster_commands, wire, workload
from matchbox.decode.wire import Progress
from matchbox.errors import BadInput

FORMATS = ("auto", "capture", "lobster", "workload", "wire")

CAPTURE_MAGIC = b"MATCHCAP"  # as in capture.py, which needs the compiler
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZSTD_SUFFIX = ".zst"
ZSTD_INPUT_BYTES = 1 << 12
"""Packed bytes taken at a time: they unpack to at most 128 MiB (32 KiB a byte), which can be
checked."""

READ_BYTES = 1 << 23
BYTES_MAX = 1 << 33
"""Default bound of what is read and unpacked: 8 GiB, 130 million records."""

Path_ = str | os.PathLike[str]


def read(
    path: Path_,
    format: str = "auto",
    *,
    seed: str = "all",
    date: str | None = None,
    bytes_max: int = BYTES_MAX,
    progress: Progress | None = None,
) -> np.ndarray:
    """All commands of a file.

    Args:
        path: packed with zstd or not.
        format: of `FORMATS`; auto looks at the first bytes, and at the name for `.csv`.
        seed: lobster: which older orders to enter first; see lobster_commands.py.
        date: lobster: day of the file, YYYY-MM-DD; None: from its name.
        bytes_max: largest size, unpacked.
        progress: called with (done, total): bytes, each counted when loaded and when decoded.
    Returns:
        RECORD[n], login and command_sequence 0; account 0 but in a capture; times as the file has
        them.
    Raises:
        BadInput: there is no such file or format, or its content is not what it should be.
    """
    if format not in FORMATS:
        raise BadInput(f"format {format!r}: expected one of {', '.join(FORMATS)}")
    name = os.fspath(path)
    data = load(path, bytes_max, (lambda done, all: progress(done, 2 * all)) if progress else None)
    decoding = (lambda done, all: progress(all + done, 2 * all)) if progress else None
    if format == "auto":
        format = detect(data, name)
    if format == "capture":
        from matchbox.decode import capture  # here, because it loads the compiler

        return capture.decode(data, name, decoding)
    if format == "workload":
        return workload.decode(data, name, decoding).records
    if format == "lobster":
        rows = lobster.decode(data, name, lobster.midnight_ns(name, date), decoding)
        return lobster_commands.convert(rows, seed).records
    return wire.decode(data, name, decoding)


def detect(data: np.ndarray, name: str) -> str:
    """The format of a file by its first bytes. Raises BadInput if it is none that we know."""
    first = data[: len(CAPTURE_MAGIC)].tobytes()
    for format, magic in (("capture", CAPTURE_MAGIC), ("workload", workload.MAGIC)):
        if magic.startswith(first):
            return format
    if first[:1].isdigit() or name.removesuffix(ZSTD_SUFFIX).endswith(".csv"):
        return "lobster"
    if wire.SIZES[first[0]]:
        return "wire"
    raise BadInput(
        f"{name}: format not recognised: begins with {first!r}; expected a capture, a workload, "
        "a LOBSTER message CSV or a client's bytes"
    )


def load(path: Path_, bytes_max: int = BYTES_MAX, progress: Progress | None = None) -> np.ndarray:
    """The bytes of a file, u8[size], unpacked if they are zstd.

    Raises BadInput: no such file, not a file, empty, broken, or more than `bytes_max`.
    """
    name = os.fspath(path)
    try:
        status = Path(path).stat()
        if stat.S_ISDIR(status.st_mode):
            raise BadInput(f"{name}: is a directory, expected a file")
        if not stat.S_ISREG(status.st_mode):
            raise BadInput(f"{name}: is not a regular file")
        with open(path, "rb") as file:
            parts = list(contents(file, status.st_size, name, bytes_max, progress))
    except OSError as error:
        raise BadInput(f"{name}: {error.strerror}, expected a file that can be read") from None
    data = b"".join(parts)
    if not data:
        raise BadInput(f"{name}: is empty, expected commands")
    return np.frombuffer(data, np.uint8)


def contents(
    file: BinaryIO, size: int, name: str, bytes_max: int, progress: Progress | None
) -> Iterator[bytes]:
    """What is in a file, unpacked, part by part."""
    begin = file.peek(len(ZSTD_MAGIC))  # type: ignore[attr-defined]
    packed = begin.startswith(ZSTD_MAGIC)
    if name.endswith(ZSTD_SUFFIX) and size and not packed:
        raise BadInput(f"{name}: offset 0: not a zstd file, which its name says it is")
    done = total = 0
    for part, consumed in unpacked(file, name) if packed else plain(file):
        total += len(part)
        if total > bytes_max:
            raise BadInput(f"{name}: larger than {bytes_max} bytes, which is the most that is read")
        done += consumed
        if progress:
            progress(min(done, size), size)
        yield part


def plain(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    while part := file.read(READ_BYTES):
        yield part, len(part)


def unpacked(file: BinaryIO, name: str) -> Iterator[tuple[bytes, int]]:
    """Parts and how many packed bytes each took. A file may hold several frames, all whole."""
    unpacker, offset, begun = zstandard.ZstdDecompressor(), 0, False
    frame = unpacker.decompressobj()
    while packed := file.read(ZSTD_INPUT_BYTES):
        consumed = len(packed)
        while packed:
            try:
                part = frame.decompress(packed)
            except zstandard.ZstdError as error:
                raise BadInput(f"{name}: broken zstd near offset {offset}: {error}") from None
            begun = not frame.eof
            packed = frame.unused_data if frame.eof else b""
            if frame.eof:
                frame = unpacker.decompressobj()
            yield part, 0
        offset += consumed
        yield b"", consumed
    if begun:
        raise BadInput(f"{name}: truncated: ends at {offset} inside a zstd frame")
