"""What holds across the project: who imports what, and that no file outgrows its reader."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(
    path for folder in ("matchbox", "bench", "faults") for path in (ROOT / folder).rglob("*.py")
)
LINES_MAX = 600
FUNCTION_LINES_MAX = 100

WITHOUT_COMPILER = [
    "matchbox",
    "matchbox.cli.group",
    "matchbox.cli.subscribe",
    "matchbox.cli.version",
    "matchbox.cli.serve",
    "matchbox.cli.replay",
    "matchbox.cli.generate",
    "matchbox.config",
    "matchbox.subscriber",
    "matchbox.printer",
    "matchbox.raw_client",
    "matchbox.tables",
    "matchbox.book.reference",
    "matchbox.book.digest",
]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("module", WITHOUT_COMPILER)
def test_imports_no_compiler(module: str) -> None:
    code = f"import sys, {module}; print(*{{'numba', 'llvmlite'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_help_imports_little() -> None:
    """It answers at once."""
    code = "import sys; from matchbox.cli.group import run; run(['--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "click" in loaded
    assert not loaded & {"numba", "numpy", "rich", "zstandard", "asyncio"}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_file_is_readable(path: Path) -> None:
    text = path.read_text()
    if not text.strip():
        return
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "a module says what it is"
    assert len(text.splitlines()) <= LINES_MAX
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno is not None
            length = node.end_lineno - node.lineno + 1
            assert length <= FUNCTION_LINES_MAX, f"{node.name} has {length} lines"


def is_kernel(node: ast.FunctionDef) -> bool:
    return any("kernel" in ast.unparse(decorator) for decorator in node.decorator_list)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_float_in_a_kernel(path: Path) -> None:
    """Exact integers only: no true division, no float literal in compiled code of the package."""
    if "matchbox" not in path.relative_to(ROOT).parts[0]:
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and is_kernel(node):
            for inner in ast.walk(node):
                division = isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Div)
                literal = isinstance(inner, ast.Constant) and isinstance(inner.value, float)
                assert not division, f"{node.name}: true division"
                assert not literal, f"{node.name}: float literal"


def test_make_targets() -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {"demo", "test", "lint"} <= set(targets)
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
