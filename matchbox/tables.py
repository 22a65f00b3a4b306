"""Tables in the documents, made from the declarations they describe. Plain Python.

    python -m matchbox.tables --check      exit 1 if a document is stale, naming the tables
    python -m matchbox.tables --write      bring the documents up to date
    python -m matchbox.tables --print      every layout and code, as frozen in tests/golden

A document says where: `<!-- table: NAME -->`, the table, `<!-- /table -->`. NAME is a layout of
`schema` (`record`), a message (`message enter`), an enum of `constants` (`Reason`) or a table of
the configuration (`config book`).
"""

import re
import sys
from collections.abc import Iterable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

import numpy as np

from matchbox import config, constants, schema
from matchbox.errors import BadInput
from matchbox.meanings import meanings

ROOT = Path(__file__).parents[1]
MARKED = re.compile(
    r"(?P<open><!-- table: (?P<name>[^>]+?) -->\n)(?P<body>.*?)(?P<close><!-- /table -->)",
    re.DOTALL,
)

MESSAGES = {
    "enter": (
        "type side kind_tif flags instrument order_id price quantity group login".split(),
        schema.COMMAND_BYTES,
    ),
    "cancel": ("type instrument order_id".split(), schema.CANCEL_BYTES),
    "reduce": ("type flags instrument order_id quantity".split(), schema.COMMAND_BYTES),
    "replace": (
        "type flags instrument order_id price quantity new_order_id".split(),
        schema.COMMAND_BYTES,
    ),
    "define": ("type parameter instrument value".split(), schema.COMMAND_BYTES),
    "state": ("type parameter instrument".split(), schema.COMMAND_BYTES),
}
"""Fields of the command layout that each message uses, and its size on the wire."""

Row = tuple[str, ...]


class Item(NamedTuple):
    """One field at its place."""

    offset: int
    type: str
    name: str
    text: str

    @property
    def size(self) -> int:
        return np.dtype(self.type).itemsize


def type_name(code: str) -> str:
    """A numpy type code as documents write it: u8 -> u64, S10 -> 10 characters."""
    kind, size = code.lstrip("<>|")[0], int(code.lstrip("<>|")[1:] or 1)
    if kind == "S":
        return f"{size} characters"
    if kind == "V":
        return f"{size} bytes"
    return f"{kind}{size * 8}" + (" big-endian" if code.startswith(">") else "")


def layout_items(layout: schema.Layout) -> list[Item]:
    offsets = layout.offsets()
    items = [Item(offsets[field.name], *field[1::-1], field.text) for field in layout.fields]
    return sorted(items, key=lambda item: item.offset)


def message_items(name: str) -> list[Item]:
    """The fields of one message, with what they mean in it."""
    used, size = MESSAGES[name]
    items = [
        item._replace(text=meaning_in(item.text, name))
        for item in layout_items(schema.COMMAND_LAYOUT)
        if item.name in used
    ]
    assert items[-1].offset + items[-1].size <= size, name
    return items


def meaning_in(text: str, message: str) -> str:
    """Of `general; enter: …; reduce, replace: …` what concerns one message."""
    parts = []
    for part in text.split("; "):
        names, colon, rest = part.partition(": ")
        if not colon or not set(names.split(", ")) <= set(MESSAGES):
            parts.append(part)
        elif message in names.split(", "):
            parts.append(rest)
    return "; ".join(parts)


def item_rows(items: Iterable[Item], size: int) -> list[Row]:
    """A row a field, and one for every stretch that no field covers."""
    rows: list[Row] = []
    end = 0
    for item in items:
        if item.offset > end:
            rows.append((str(end), f"{item.offset - end} bytes", "", "unused: zero"))
        rows.append((str(item.offset), type_name(item.type), f"`{item.name}`", item.text))
        end = max(end, item.offset + item.size)
    if end < size:
        rows.append((str(end), f"{size - end} bytes", "", "unused: zero"))
    return rows


def enum_rows(enum: type[IntEnum]) -> list[Row]:
    texts = meanings(enum)
    return [(str(code.value), f"`{code.name.lower()}`", texts.get(code.value, "")) for code in enum]


def config_rows(name: str) -> list[Row]:
    table = getattr(config.Config(), name)
    return [
        (f"`{key}`", f"`{toml(getattr(table, key))}`", rule.text, rule.expected)
        for key, rule in config.rules(table).items()
    ]


def toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def markdown(header: Sequence[str], rows: Iterable[Row]) -> str:
    lines = [tuple(header), tuple("---" for _ in header), *rows]
    cells = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "".join("| " + " | ".join(line) + " |\n" for line in cells)


def enums() -> dict[str, type[IntEnum]]:
    return {
        name: item
        for name, item in vars(constants).items()
        if isinstance(item, type) and issubclass(item, IntEnum) and item is not IntEnum
    }


def table(name: str) -> str:
    """One table by its name. Raises BadInput for a name that means nothing."""
    fields = ("offset", "type", "field", "meaning")
    layouts = {layout.name: layout for layout in schema.LAYOUTS}
    kind, _, rest = name.partition(" ")
    if name in layouts:
        layout = layouts[name]
        return markdown(fields, item_rows(layout_items(layout), layout.size))
    if kind == "message" and rest in MESSAGES:
        return markdown(fields, item_rows(message_items(rest), MESSAGES[rest][1]))
    if kind == "config" and rest in config.tables():
        return markdown(("key", "default", "meaning", "expected"), config_rows(rest))
    if name in enums():
        return markdown(("value", "name", "meaning"), enum_rows(enums()[name]))
    known = [*layouts, *(f"message {m}" for m in MESSAGES), *enums()]
    known += [f"config {t}" for t in config.tables()]
    raise BadInput(f"table {name!r}: expected one of {', '.join(known)}")


def filled(text: str) -> tuple[str, list[str]]:
    """A document with all tables up to date, and the names of those that were not."""
    stale = []

    def fill(place: re.Match[str]) -> str:
        body = table(place["name"])
        if body != place["body"]:
            stale.append(place["name"])
        return place["open"] + body + place["close"]

    return MARKED.sub(fill, text), stale


def documents() -> list[Path]:
    return [
        path
        for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
        if path.exists()
    ]


def golden() -> str:
    """Every layout and code, a line each: versions that print the same understand each other."""
    lines = []
    for layout in schema.LAYOUTS:
        lines.append(f"layout {layout.name} {layout.size}")
        lines += [f"  {item.offset:>4} {item.type:<5} {item.name}" for item in layout_items(layout)]
    for name, (used, size) in MESSAGES.items():
        lines.append(f"message {name} {size}: {' '.join(used)}")
    for name, enum in enums().items():
        lines.append(f"enum {name}")
        lines += [f"  {code.value:>4} {code.name}" for code in enum]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    if arguments == ["--print"]:
        sys.stdout.write(golden())
        return 0
    if arguments not in (["--check"], ["--write"]):
        sys.stderr.write("usage: python -m matchbox.tables --check | --write | --print\n")
        return constants.Exit.USAGE
    status = 0
    for path in documents():
        text, stale = filled(path.read_text())
        for name in stale:
            verb = "written" if arguments == ["--write"] else "stale: make it with --write"
            print(f"{path.relative_to(ROOT)}: table {name!r}: {verb}")
        if stale and arguments == ["--write"]:
            path.write_text(text)
        elif stale:
            status = constants.Exit.CHECK_FAILED
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
