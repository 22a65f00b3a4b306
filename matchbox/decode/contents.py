"""The bytes of a file, unpacked if they are zstd, never more than a bound. Plain Python."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import zstandard

from matchbox.errors import BadInput

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZSTD_SUFFIX = ".zst"
ZSTD_INPUT_BYTES = 1 << 12
"""Packed bytes taken at a time: they unpack to 128 MiB at the most, 32 KiB a byte."""

READ_BYTES = 1 << 23
BYTES_MAX = 1 << 33
"""Default bound of what is read and unpacked: 8 GiB, 130 million records."""

Progress = Callable[[int, int], None]
"""Told how much is done, and of how much."""


def load(
    path: str | os.PathLike[str], bytes_max: int = BYTES_MAX, progress: Progress | None = None
) -> np.ndarray:
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
