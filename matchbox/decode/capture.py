"""Capture files: commands as records, chained by their checksums. Plain Python; the chain is in
chain.py.

A capture is `schema.CAPTURE`, then records to the end of the file. It is valid if and only if (1)
the header's checksum, magic and major version are right, (2) the file ends with record `count`, (3)
every record's checksum follows from the one before, the first from the header's first 16 bytes, (4)
word 1 numbers the records from 1, (5) the last checksum is the header's `chain`, (6) every command
is one that a client may send. So a bit that changed, a record that is missing, repeated or from
another file, and an end too early are found, and where.

The file appears under its name when it is whole: it is written beside it, synced and renamed.
Accounts are kept as they were captured, logins are not: they name connections that are gone.
"""

import os
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from matchbox.checksum import crc32c
from matchbox.decode.chain import seal, unseal
from matchbox.decode.contents import Progress
from matchbox.decode.wire import SIZES, clear_logins, expected_types
from matchbox.errors import BadInput, Unavailable
from matchbox.schema import CAPTURE, CAPTURE_LAYOUT, RECORD, RECORD_BYTES

MAGIC = b"MATCHCAP"
MAJOR, MINOR = 1, 0
HEADER_BYTES = CAPTURE_LAYOUT.size
SEED_BYTES = 16  # of the header, known before the first record is
WORDS = RECORD_BYTES // 8
BLOCK = 1 << 18  # records at a time

KNOWN = np.frombuffer(SIZES, np.uint8) != 0


def header_of(count: int, chain: int) -> np.ndarray:
    """CAPTURE[1]."""
    header = np.zeros(1, CAPTURE)
    header["magic"], header["major"], header["minor"] = MAGIC, MAJOR, MINOR
    header["record_bytes"], header["count"], header["chain"] = RECORD_BYTES, count, chain
    header["checksum"] = crc32c(header.tobytes())
    return header


class Writer:
    """A capture that is being written. As a context manager it is finished, or after an error
    dropped.

        with Writer(path) as capture:
            capture.append(records)

    Args:
        path: where it will be; what is there is replaced.
    Attributes:
        count: records so far.
    Raises:
        Unavailable: the folder or the disk does not take it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.count = 0
        self._chain = crc32c(header_of(0, 0).tobytes()[:SEED_BYTES])
        self._beside = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            self._file = open(self._beside, "xb")
            self._file.write(bytes(HEADER_BYTES))
        except OSError as error:
            raise Unavailable(f"{self.path}: {error.strerror}") from None

    def append(self, records: np.ndarray) -> None:
        """Write RECORD[n]. Raises ValueError for a command that no client may send."""
        if not KNOWN[records["type"]].all():
            raise ValueError(
                f"command {self.count + int(np.argmin(KNOWN[records['type']]))}: {expected_types()}"
            )
        for first in range(0, records.size, BLOCK):
            words = np.ascontiguousarray(records[first : first + BLOCK]).view("<u8").reshape(-1)
            sealed = np.empty_like(words)
            self._chain = int(
                seal(words, sealed, np.uint64(self.count + 1), np.uint64(self._chain))
            )
            self._write(sealed)
            self.count += words.size // WORDS

    def finish(self) -> None:
        """Make it whole, and durable under its name."""
        self._file.seek(0)
        self._write(header_of(self.count, self._chain))
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            os.replace(self._beside, self.path)
        except OSError as error:
            self.drop()
            raise Unavailable(f"{self.path}: {error.strerror}") from None

    def drop(self) -> None:
        """Forget it; what was there before stays."""
        self._file.close()
        self._beside.unlink(missing_ok=True)

    def _write(self, array: np.ndarray) -> None:
        try:
            self._file.write(array.tobytes())
        except OSError as error:
            raise Unavailable(f"{self.path}: {error.strerror}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.finish()
        else:
            self.drop()


def write(path: str | os.PathLike[str], records: np.ndarray) -> None:
    """A capture of RECORD[n], whole or not at all. Raises as `Writer`."""
    with Writer(path) as capture:
        capture.append(records)


def decode(data: np.ndarray, name: str, progress: Progress | None = None) -> np.ndarray:
    """The commands of a capture.

    Args:
        data: u8[size], the whole file.
        name: of the source, for errors.
        progress: called with (bytes done, bytes in all).
    Returns:
        RECORD[n] with account and time as captured, login and command_sequence 0.
    Raises:
        BadInput: not a capture, of another version, cut off or damaged; says where.
    """
    header = header_in(data, name)
    count = int(header["count"])
    sealed = data[HEADER_BYTES:].view("<u8")
    records = np.empty(count, RECORD)
    words = records.view("<u8").reshape(-1)
    chain = crc32c(data[:SEED_BYTES].tobytes())
    for first in range(0, count, BLOCK):
        part = slice(first * WORDS, (first + BLOCK) * WORDS)
        valid, last = unseal(sealed[part], words[part], np.uint64(first + 1), np.uint64(chain))
        if valid * WORDS < words[part].size:
            raise damaged(name, first + int(valid), "does not follow from what is before it")
        chain = int(last)
        if progress:
            progress(min(HEADER_BYTES + (first + BLOCK) * RECORD_BYTES, data.size), data.size)
    if chain != header["chain"]:
        raise BadInput(
            f"{name}: offset {HEADER_BYTES}: these are not the records that the header names"
        )
    known = KNOWN[records["type"]]
    if not known.all():
        raise damaged(name, int(np.argmin(known)), expected_types())
    clear_logins(records)
    return records


def header_in(data: np.ndarray, name: str) -> np.void:
    """The header, if it is right and the file has the size it says."""
    if data.size < HEADER_BYTES:
        raise BadInput(f"{name}: truncated: {data.size} bytes, expected a header of {HEADER_BYTES}")
    header = data[:HEADER_BYTES].view(CAPTURE)[0]
    if header["magic"] != MAGIC:
        raise BadInput(f"{name}: offset 0: magic {bytes(header['magic'])!r}, expected {MAGIC!r}")
    if header["major"] != MAJOR:
        raise BadInput(f"{name}: offset 8: version {header['major']}, expected {MAJOR}")
    unsummed = data[:HEADER_BYTES].copy()
    unsummed.view(CAPTURE)["checksum"] = 0
    if crc32c(unsummed.tobytes()) != header["checksum"] or header["record_bytes"] != RECORD_BYTES:
        raise BadInput(f"{name}: offset 0: the header is damaged: its checksum does not match")
    expected = HEADER_BYTES + int(header["count"]) * RECORD_BYTES
    if data.size != expected:
        problem = "truncated" if data.size < expected else "trailing bytes"
        raise BadInput(
            f"{name}: {problem}: ends at {data.size}, expected {expected} "
            f"for {header['count']} records"
        )
    return header


def damaged(name: str, record: int, problem: str) -> BadInput:
    offset = HEADER_BYTES + record * RECORD_BYTES
    return BadInput(f"{name}: damaged: record {record + 1} at offset {offset}: {problem}")
