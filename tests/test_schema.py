"""Layouts: sizes, places, and that none of them changes without anyone meaning it."""

import difflib
from pathlib import Path

import numpy as np
import pytest

from matchbox import schema, tables
from matchbox.constants import Kind, Reason
from matchbox.schema import LAYOUTS, Field, Layout

GOLDEN = Path(__file__).parent / "golden" / "layouts.txt"


def test_layouts_are_frozen() -> None:
    """The compatibility gate."""
    frozen, now = GOLDEN.read_text(), tables.golden()
    difference = "\n".join(difflib.unified_diff(frozen.splitlines(), now.splitlines(), lineterm=""))
    assert frozen == now, (
        f"{difference}\nThis changes what is on the wire or on disk. If it is meant, say so in the "
        "history of docs/PROTOCOL.md, then: "
        "python -m matchbox.tables --print > tests/golden/layouts.txt"
    )


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_layout(layout: Layout) -> None:
    offsets, dtype = layout.offsets(), layout.dtype()
    assert dtype.itemsize == layout.size
    assert list(offsets) == [field.name for field in layout.fields]
    for field in layout.fields:
        at, size = offsets[field.name], np.dtype(field.type).itemsize
        assert dtype.fields is not None
        assert dtype.fields[field.name][1] == at
        assert at + size <= layout.size
        if layout.name != "moldudp64":
            assert at % min(size, 8) == 0 or field.type[0] in "SV", f"{field.name} is not aligned"


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_only_declared_fields_overlap(layout: Layout) -> None:
    covered = np.zeros(layout.size, int)
    for field in layout.fields:
        if field.name not in layout.at:
            at = layout.offsets()[field.name]
            covered[at : at + np.dtype(field.type).itemsize] += 1
    assert covered.max() == 1


def test_a_record_is_a_command_with_24_bytes_before_it() -> None:
    command, record = schema.COMMAND_LAYOUT.offsets(), schema.RECORD_LAYOUT.offsets()
    assert {name: at + 24 for name, at in command.items()}.items() <= record.items()


def test_an_output_begins_with_its_report() -> None:
    assert schema.REPORT_LAYOUT.offsets().items() <= schema.OUTPUT_LAYOUT.offsets().items()


def test_little_endian_inside_and_big_endian_in_the_datagram_header() -> None:
    """What Python packs is what the layout says."""
    report = np.zeros(1, schema.REPORT)
    report["report_sequence"], report["price"], report["kind"] = 0x0102, -2, Kind.EXECUTED
    data = report.tobytes()
    assert data[:8] == bytes.fromhex("0201000000000000")
    assert data[24:32] == bytes.fromhex("feffffffffffffff")
    assert data[44] == 3
    header = np.zeros(1, schema.MOLD)
    header["stream"], header["sequence"], header["count"] = b"TEST", 0x0102, 3
    assert header.tobytes() == b"TEST\0\0\0\0\0\0" + bytes.fromhex("0000000000000102 0003")


def test_offsets_of_fields_that_lie_over_others() -> None:
    layout = Layout(
        "x", "", 8, (Field("a", "u4", ""), Field("b", "u4", ""), Field("c", "u2", "")), {"c": 2}
    )
    assert layout.offsets() == {"a": 0, "b": 4, "c": 2}


def test_reasons_lie_where_their_range_says() -> None:
    for reason in Reason:
        expected = (
            range(1, 16) if reason <= Reason.LOGIN_LOST
            else range(16, 32) if reason <= Reason.PEG
            else range(32, 96) if reason <= Reason.NOT_SUPPORTED
            else range(96, 256)
        )  # fmt: skip
        assert reason in expected or reason == Reason.NONE
