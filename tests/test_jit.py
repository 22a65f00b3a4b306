"""The kernel cache: what names it, where it is, and that stale machine code is never used."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from matchbox import jit


def test_digest_names_every_kernel_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed callee or constant in another file is another cache: Numba would not notice."""
    for name in ("jit.py", "constants.py", "schema.py", "plain.py"):
        (tmp_path / name).write_text("A = 1\n")
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "step.py").write_text("from matchbox.jit import kernel\n")
    monkeypatch.setattr(jit, "PACKAGE", tmp_path)
    assert [path.name for path in jit.sources()] == [
        "constants.py",
        "jit.py",
        "step.py",
        "schema.py",
    ]
    before = jit.digest()
    (tmp_path / "plain.py").write_text("A = 2\n")
    assert jit.digest() == before, "no kernel depends on it"
    for name in ("constants.py", "schema.py", "room/step.py"):
        (tmp_path / name).write_text((tmp_path / name).read_text() + "B = 3\n")
        assert jit.digest() != before, name
        before = jit.digest()


@pytest.mark.parametrize("name", ["NUMBA_BOUNDSCHECK", "NUMBA_OPT", "NUMBA_CPU_NAME"])
def test_digest_names_settings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = jit.digest()
    monkeypatch.setenv(name, "something")
    assert jit.digest() != before


def test_digest_does_not_name_other_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    before = jit.digest()
    monkeypatch.setenv("MATCHBOX_ANYTHING", "1")
    assert jit.digest() == before


def test_cache_root_is_the_chosen_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.delenv("MATCHBOX_CACHE_DIR", raising=False)
    assert jit.cache_root() == tmp_path / "user" / "matchbox"
    monkeypatch.setenv("MATCHBOX_CACHE_DIR", str(tmp_path / "chosen"))
    assert jit.cache_root() == tmp_path / "chosen"


def test_read_only_user_folder_falls_back_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    occupied = tmp_path / "occupied"
    occupied.write_text("a file where the folder should be: not writable even for root")
    monkeypatch.setenv("XDG_CACHE_HOME", str(occupied))
    monkeypatch.delenv("MATCHBOX_CACHE_DIR", raising=False)
    with pytest.warns(UserWarning, match="not writable"):
        root = jit.cache_root()
    assert root.name == f"matchbox-{os.getuid()}"


def test_chosen_folder_that_cannot_be_made_falls_back_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MATCHBOX_CACHE_DIR", str(tmp_path / "file" / "below"))
    with pytest.warns(UserWarning, match="kernels are cached in"):
        folder = jit.choose_cache()
    assert folder.is_dir()
    folder.rmdir()


def test_prune_keeps_the_newest(tmp_path: Path) -> None:
    folders = [tmp_path / f"kernels-{number}" for number in range(7)]
    for age, folder in enumerate(folders):
        folder.mkdir()
        os.utime(folder, (1000 - age, 1000 - age))
    (tmp_path / "other").mkdir()
    jit.prune(tmp_path, folders[6])
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["kernels-0", "kernels-1", "kernels-2", "kernels-6", "other"]


KERNELS = """
from matchbox.jit import kernel
from {package}.callee import step

@kernel(entry=True)
def entry(value):
    return step(value)
"""


def run_caller(tmp_path: Path, callee: str) -> tuple[str, int]:
    """Value of the kernel in a fresh process, and how many index files its cache has then."""
    package = tmp_path / "probe"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text("")
    (package / "callee.py").write_text(callee)
    (package / "caller.py").write_text(KERNELS.format(package="probe"))
    # `sources` reads the package the digest is of: point it at the probe as well.
    code = (
        "import pathlib, matchbox.jit as jit, numba;"
        "jit.PACKAGE = pathlib.Path('probe');"
        "numba.config.CACHE_DIR = str(jit.choose_cache());"
        "from probe.caller import entry;"
        "print(entry(1))"
    )
    for name in ("jit.py", "constants.py", "schema.py"):
        (package / name).write_text("")
    cache = tmp_path / "cache"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "MATCHBOX_CACHE_DIR": str(cache), "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout.strip(), len(list(cache.rglob("*.nbi")))


def test_a_changed_callee_is_compiled_again(tmp_path: Path) -> None:
    callee = "from matchbox.jit import kernel\n@kernel\ndef step(value):\n    return value + {}\n"
    first, kernels = run_caller(tmp_path, callee.format(1))
    assert run_caller(tmp_path, callee.format(1)) == (first, kernels), "from the cache"
    assert run_caller(tmp_path, callee.format(10)) == ("11", 2 * kernels)
    assert first == "2"


def test_kernels_cannot_allocate() -> None:
    import numpy as np

    @jit.kernel(entry=True)
    def allocates(count):  # type: ignore[no-untyped-def]
        return np.zeros(count)[0]

    with (
        warnings.catch_warnings(),
        pytest.raises(Exception, match="Only accept returning of array"),
    ):
        warnings.simplefilter("ignore")
        allocates(3)
