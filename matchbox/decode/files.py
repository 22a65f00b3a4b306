"""Files of commands, whatever their format, as records. Plain Python.

    path -> load: bytes, unpacked if zstd -> detect -> a format's decode -> RECORD[n]

A file is read whole: it is checked before its first command is executed, so a bad one changes
nothing. What is unpacked is bounded. Every error is a BadInput that names the file, the place in it
and what was expected there.
"""

import os

import numpy as np

from matchbox.decode import lobster, lobster_commands, wire, workload
from matchbox.decode.contents import BYTES_MAX, ZSTD_SUFFIX, Progress, load
from matchbox.errors import BadInput

FORMATS = ("auto", "capture", "lobster", "workload", "wire")

CAPTURE_MAGIC = b"MATCHCAP"  # as in capture.py, which needs the compiler


def read(
    path: str | os.PathLike[str],
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
