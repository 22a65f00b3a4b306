"""Documents say what is so: tables, links, and every session they show."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from matchbox import tables
from matchbox.errors import BadInput
from matchbox.meanings import meanings
from tests.console import Step, first_missing, steps

ROOT = Path(__file__).parents[1]
DOCUMENTS = tables.documents()
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(#[^)\s]*)?\)")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_tables_are_fresh(path: Path) -> None:
    _, stale = tables.filled(path.read_text())
    assert not stale, "make them with: python -m matchbox.tables --write"


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_marks_of_tables_are_in_pairs(path: Path) -> None:
    text = path.read_text()
    assert text.count("<!-- table: ") == len(tables.MARKED.findall(text))
    assert text.count("<!-- table: ") == text.count("<!-- /table -->")


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(path: Path) -> None:
    for target, anchor in LINK.findall(path.read_text()):
        linked = path.parent / target if target else path
        assert linked.exists(), f"{target} does not exist"
        if anchor and linked.suffix == ".md":
            headings = re.findall(r"^#+ (.*)$", linked.read_text(), re.MULTILINE)
            anchors = {
                "#" + re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
                for heading in headings
            }
            assert anchor in anchors, f"{target}{anchor} does not exist"


@pytest.mark.parametrize(
    "path", [path for path in DOCUMENTS if "```console" in path.read_text()], ids=name_of
)
def test_sessions(path: Path) -> None:
    """Run every command that a document shows; see tests/console.py."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.console", str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "path", [path for path in DOCUMENTS if "```python" in path.read_text()], ids=name_of
)
def test_python_examples(path: Path) -> None:
    """Run every example; an expression with a comment below it has that value."""
    for block in re.findall(r"^```python\n(.*?)^```$", path.read_text(), re.DOTALL | re.MULTILINE):
        names: dict[str, object] = {}
        lines = block.splitlines()
        for node in ast.parse(block).body:
            source = ast.unparse(node)
            if not isinstance(node, ast.Expr):
                exec(source, names)
                continue
            value = eval(source, names)
            assert node.end_lineno is not None
            below = lines[node.end_lineno] if node.end_lineno < len(lines) else ""
            if below.startswith("# "):
                assert repr(value) == below.removeprefix("# "), source


def test_every_enum_of_the_protocol_is_in_a_document() -> None:
    text = "".join(path.read_text() for path in DOCUMENTS)
    for name in tables.enums():
        assert f"<!-- table: {name} -->" in text, name


def test_every_code_has_a_sentence() -> None:
    for enum in tables.enums().values():
        assert all(meanings(enum)[code] for code in enum), enum


def test_table_of_a_message() -> None:
    assert tables.table("message cancel") == (
        "| offset | type | field | meaning |\n"
        "| --- | --- | --- | --- |\n"
        "| 0 | u8 | `type` | `CommandType` |\n"
        "| 1 | 3 bytes |  | unused: zero |\n"
        "| 4 | u32 | `instrument` | instrument number from 1; 0 for any |\n"
        "| 8 | u64 | `order_id` | the client's, unique among the account's live orders |\n"
    )


def test_stale_table_is_found_and_written() -> None:
    text = "before\n<!-- table: Side -->\nold\n<!-- /table -->\nafter\n"
    made, stale = tables.filled(text)
    assert stale == ["Side"]
    assert "| 1 | `sell` | ask |" in made
    assert tables.filled(made) == (made, [])
    assert made.startswith("before\n")
    assert made.endswith("\nafter\n")


def test_unknown_table() -> None:
    with pytest.raises(BadInput, match="expected one of"):
        tables.table("nonsense")


# -- the reader of sessions ----------------------------------------------------------------------

DOCUMENT = """\
```console
$ matchbox serve &
serves …
$ echo one \\
>   two
one two
```

```sh
$ not run
```
"""


def test_steps() -> None:
    assert list(steps(DOCUMENT)) == [
        Step("matchbox serve &", ["serves …"]),
        Step("echo one \\\n  two", ["one two"]),
    ]


@pytest.mark.parametrize(
    ("expected", "missing"),
    [
        (["a 1", "c 3"], None),
        (["a …", "…", "c 3", ""], None),
        (["c 3", "a 1"], "a 1"),
        (["a"], "a"),
        (["…2…"], None),
        (["b    2"], None),
    ],
)
def test_comparison_is_loose_but_in_order(expected: list[str], missing: str | None) -> None:
    assert first_missing(expected, ["a 1", "  b 2", "c 3"]) == missing


@pytest.mark.parametrize(
    ("session", "told"),
    [
        ("$ echo yes\nno\n", "did not print: no"),
        ("$ false\n", "ended with status 1"),
        ("$ (sleep 0.3; echo late) &\nlate\n$ kill -9 $$\n", "did not end"),
        ("$ cat; X=1\n$ test $X = 1; echo $X$?\n10\n", None),
        ("$ sleep 100 & \n$ kill %1\n", None),
    ],
)
def test_what_is_wrong_is_told(
    session: str, told: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests import console

    monkeypatch.setattr(console, "COMMAND_TIMEOUT_S", 5.0)
    monkeypatch.setattr(console, "SETTLE_TIMEOUT_S", 1.0)
    document = tmp_path / "x.md"
    document.write_text(f"```console\n{session}```\n")
    problems = console.check(document)
    if told is None:
        assert problems == []
    else:
        assert told in problems[0]


def test_command_line_of_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "README.md").write_text("<!-- table: Side -->\nold\n<!-- /table -->\n")
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    assert tables.main(["--check"]) == 1
    assert capsys.readouterr().out == "README.md: table 'Side': stale: make it with --write\n"
    assert tables.main(["--write"]) == 0
    assert tables.main(["--check"]) == 0
    assert tables.main([]) == 2
