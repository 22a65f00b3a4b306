"""The one way a function becomes machine code.

`@kernel` marks a step that is inlined into its caller and can be called from kernels only;
`@kernel(entry=True)` one that Python or a thread calls, or that is too rarely used to be inlined.
Only entries are cached, and only they get the wrappers that Python calls, which halves the time to
compile. Both run without the GIL and without Numba's runtime (`_nrt=False`): a kernel cannot
allocate, and taking an array out of a `NamedTuple` costs no reference count (measured: 6 to 8
times faster).

The cache folder is ours. Numba does not notice when a callee or a constant in another file
changes, so the folder is named by a digest of every compiled source, the versions and the NUMBA_*
settings.
"""

import hashlib
import os
import platform
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba import config, njit

CACHE_FOLDERS_KEPT = 4

PACKAGE = Path(__file__).parent


def sources() -> list[Path]:
    """Every file whose text can end up in machine code."""
    kernels = [
        path
        for path in PACKAGE.rglob("*.py")
        if "matchbox.jit" in (text := path.read_text("utf-8")) or "matchbox.atomics" in text
    ]
    return sorted({*kernels, PACKAGE / "jit.py", PACKAGE / "constants.py", PACKAGE / "schema.py"})


def digest() -> str:
    """Names one state of the compiled code: 16 hex digits."""
    summary = hashlib.blake2b(digest_size=8)
    for path in sources():
        summary.update(str(path.relative_to(PACKAGE)).encode() + b"\0" + path.read_bytes())
    settings = sorted(f"{k}={v}" for k, v in os.environ.items() if k.startswith("NUMBA_"))
    versions = [numba.__version__, llvmlite.__version__, np.__version__, platform.python_version()]
    summary.update("\n".join([*versions, platform.machine(), *settings]).encode())
    return summary.hexdigest()


def cache_root() -> Path:
    """MATCHBOX_CACHE_DIR, else the user's cache folder, else a temporary folder with a warning."""
    chosen = os.environ.get("MATCHBOX_CACHE_DIR")
    if chosen:
        return Path(chosen)
    base = Path("~/.cache/matchbox")
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "matchbox"
        base.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=base):
            return base
    except (OSError, RuntimeError):
        fallback = Path(tempfile.gettempdir()) / f"matchbox-{os.getuid()}"
        warnings.warn(f"{base} is not writable: kernels are cached in {fallback}", stacklevel=2)
        return fallback


def prune(root: Path, current: Path) -> None:
    """Keep the newest cache folders only; another process may do the same at the same time."""
    others = [path for path in root.glob("kernels-*") if path != current]
    others.sort(key=lambda path: path.stat().st_mtime if path.exists() else 0, reverse=True)
    for path in others[CACHE_FOLDERS_KEPT - 1 :]:
        shutil.rmtree(path, ignore_errors=True)


def choose_cache() -> Path:
    root = cache_root()
    folder = root / f"kernels-{digest()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        prune(root, folder)
    except OSError as error:
        folder = Path(tempfile.mkdtemp(prefix="matchbox-"))
        warnings.warn(f"{root}: {error.strerror}: kernels are cached in {folder}", stacklevel=2)
    return folder


CACHE = choose_cache()
config.CACHE_DIR = str(CACHE)


def kernel(function: Callable[..., Any] | None = None, *, entry: bool = False) -> Any:
    """Compile a function. Options live here and nowhere else.

    Args:
        function: takes and returns arrays, NamedTuples of arrays and integers. Indices are u64.
        entry: compiled by itself and called from Python; otherwise inlined wherever it is called.
    """

    def compile(f: Callable[..., Any]) -> Any:
        if entry:
            return njit(f, nogil=True, cache=True, _nrt=False)
        return njit(
            f,
            nogil=True,
            _nrt=False,
            forceinline=True,
            no_cpython_wrapper=True,
            no_cfunc_wrapper=True,
        )

    return compile if function is None else compile(function)
