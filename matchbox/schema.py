"""Every binary layout of matchbox, declared once.

A layout is a list of fields: name, type, what it is. Dtypes, the tables in docs/PROTOCOL.md and
docs/WAL.md, the printer and the layout tests derive from it; `tests/golden/layouts.txt` freezes it.
All integers are little-endian unless a layout says `big-endian`. Sizes are asserted at import.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np


class Field(NamedTuple):
    name: str
    type: str  # numpy type code: u1 u2 u4 u8 i8, S10, or "40B" for bytes; ">" in front: big-endian
    text: str


class Layout(NamedTuple):
    """One binary layout. Fields follow one another without padding unless `at` places one."""

    name: str
    text: str
    size: int
    fields: tuple[Field, ...]
    at: Mapping[str, int] = MappingProxyType({})  # fields that lie over others

    def offsets(self) -> dict[str, int]:
        """Byte offset of each field, in declaration order."""
        result, end = {}, 0
        for field in self.fields:
            offset = self.at.get(field.name, end)
            result[field.name] = offset
            if field.name not in self.at:
                end = offset + np.dtype(field.type).itemsize
        return result

    def dtype(self) -> np.dtype:
        offsets = self.offsets()
        names = [field.name for field in self.fields]
        return np.dtype(
            {
                "names": names,
                "formats": [field.type for field in self.fields],
                "offsets": [offsets[name] for name in names],
                "itemsize": self.size,
            }
        )


COMMAND_LAYOUT = Layout(
    "command",
    "One command, as in the record. On the wire a cancel is its first 16 bytes, all others whole.",
    40,
    (
        Field("type", "u1", "`CommandType`"),
        Field("side", "u1", "enter: 0 buy, 1 sell"),
        Field("kind_tif", "u1", "enter: `OrderKind` in the low, `Tif` in the high four bits"),
        Field("flags", "u1", "`CommandFlag` bits"),
        Field("instrument", "u4", "instrument number from 1; cancel, reduce, replace: 0 for any"),
        Field("order_id", "u8", "the client's, unique among the account's live orders"),
        Field("price", "i8", "ticks; any value is legal"),
        Field("quantity", "i8", "lots; reduce, replace: the new total leaves"),
        Field("group", "u4", "enter: self-trade group"),
        Field("login", "u4", "enter: stamped by the decoder"),
        Field("new_order_id", "u8", "replace: the id from here on, may be the same"),
        Field("parameter", "u1", "define: `Parameter`; state: `Action`"),
        Field("value", "i8", "define: the parameter's value"),
    ),
    {"new_order_id": 32, "parameter": 1, "value": 16},
)

RECORD_LAYOUT = Layout(
    "record",
    "Ring slot and log record. Valid if and only if (1) its checksum matches under the chain, "
    "(2) its command_sequence is the last plus one, (3) its type is known or ignorable, "
    "(4) reserved bytes are zero.",
    64,
    (
        Field(
            "checksum",
            "u4",
            "CRC-32C of bytes 4-63 seeded with the record before; in the ring: the login",
        ),
        Field("account", "u4", "stamped by the decoder; 0: trusted raw port or replay"),
        Field("command_sequence", "u8", "dense from 1 for the life of the log; assigned on append"),
        Field("time_ns", "u8", "max(last, wall clock), since 1970, stamped once by the decoder"),
        *COMMAND_LAYOUT.fields,
    ),
    {"new_order_id": 56, "parameter": 25, "value": 40},
)

REPORT_LAYOUT = Layout(
    "report",
    "One report: the market order by order, and each order's whole life.",
    48,
    (
        Field("report_sequence", "u8", "dense from 1 for the life of the log"),
        Field(
            "reference", "u8", "the order: report_sequence of the report that accepted it, for life"
        ),
        Field("contra", "u8", "executed: the aggressor's reference; else the order_id or selector"),
        Field("price", "i8", "ticks"),
        Field("quantity", "i8", "lots"),
        Field("instrument", "u4", ""),
        Field("kind", "u1", "`Kind`"),
        Field("side", "u1", "the order's; executed: the aggressor's"),
        Field("reason", "u1", "`Reason`"),
        Field("flags", "u1", "`ReportFlag` bits"),
    ),
)

OUTPUT_LAYOUT = Layout(
    "output",
    "Report log record: a report and who it is for.",
    64,
    (
        *REPORT_LAYOUT.fields,
        Field(
            "checksum",
            "u4",
            "CRC-32C of bytes 0-47 and 52-63 seeded with the record before; "
            "before the append: login of the order `reference` names",
        ),
        Field("resting_account", "u4", "owner of the order that `reference` names"),
        Field("aggressor_account", "u4", "account of the command"),
        Field("command", "u4", "low half of the command_sequence that caused it"),
    ),
)

MOLD_LAYOUT = Layout(
    "moldudp64",
    "Header of a datagram (MoldUDP64 1.0), big-endian. Then messages: u16 length, a report.",
    20,
    (
        Field("stream", "S10", "identity of the report stream (MoldUDP64: session)"),
        Field("sequence", ">u8", "report_sequence of the first message, or the next one"),
        Field("count", ">u2", "messages in this datagram; 0: heartbeat; 0xFFFF: end of session"),
    ),
)

SEGMENT_LAYOUT = Layout(
    "segment",
    "First block of a log segment: what is known when it is made, and never written again.",
    4096,
    (
        Field("magic", "S8", "`MATCHLOG`"),
        Field("major", "u2", "another major version: refuse"),
        Field("minor", "u2", "a newer minor version: read"),
        Field("kind", "u4", "1: commands, 2: reports"),
        Field("compatible", "u8", "features that a reader may not know"),
        Field("read_compatible", "u8", "features that a reader may not know, a writer must"),
        Field("incompatible", "u8", "features that a reader must know"),
        Field("log_uuid", "V16", "identity of the log, the same in every segment of both kinds"),
        Field("boot_id", "V16", "the machine's start in which this segment was made"),
        Field("segment", "u8", "number, from 1, without holes"),
        Field("segment_bytes", "u8", "size of the file, this block included"),
        Field("slot_bytes", "u4", "64"),
        Field("shard", "u4", "0"),
        Field("salt", "u4", "random: seeds the checksum of the first record, the link"),
        Field("reserved", "u4", "0"),
        Field("created_ns", "u8", "since 1970"),
        Field("build", "S16", "digest of the compiled sources that made it"),
        Field("checksum", "u4", "CRC-32C of bytes 0-4091, from 0, without inversion"),
    ),
    {"checksum": 4092},
)

LINK_LAYOUT = Layout(
    "link",
    "First record of every segment: joins it to the one before. Takes no sequence.",
    64,
    (
        Field(
            "checksum",
            "u4",
            "CRC-32C of bytes 4-63 seeded with the segment's salt; seeds the next record's",
        ),
        Field("reserved", "u4", "0"),
        Field("sequence", "u8", "last sequence before this segment"),
        Field("time_ns", "u8", "0"),
        Field("type", "u1", "`CommandType.LINK`"),
        Field("zeros", "V7", "0"),
        Field("predecessor", "u8", "number of the segment before; 0: none"),
        Field("epoch", "u8", "which opening of the log made this segment, from 1"),
        Field("chain", "u8", "checksum of the last record before this segment"),
        Field("zero", "u8", "0"),
    ),
)

GENESIS_LAYOUT = Layout(
    "genesis",
    "First record of a log, command 1: every limit that a report can depend on. Yields no report.",
    64,
    (
        *RECORD_LAYOUT.fields[:4],
        Field("type", "u1", "`CommandType.GENESIS`"),
        Field("zeros", "V7", "0"),
        Field("orders", "u8", "live orders at the most"),
        Field("levels", "u8", "live price levels at the most"),
        Field("instruments", "u8", "instruments are numbered 1 to this"),
        Field("zero", "u8", "0"),
    ),
)

CAPTURE_LAYOUT = Layout(
    "capture",
    "Header of a file of commands. Records follow to its end; record n has command_sequence n.",
    64,
    (
        Field("magic", "S8", "`MATCHCAP`"),
        Field("major", "u2", "another major version: refuse"),
        Field("minor", "u2", "a newer minor version: read"),
        Field("record_bytes", "u4", "64"),
        Field("count", "u8", "records in the file"),
        Field("reserved", "V32", "0"),
        Field(
            "chain",
            "u4",
            "checksum of the last record; the first one's is seeded with the CRC-32C of bytes 0-15",
        ),
        Field("checksum", "u4", "CRC-32C of bytes 0-59 and four zeros"),
    ),
)

LAYOUTS = (
    COMMAND_LAYOUT,
    RECORD_LAYOUT,
    REPORT_LAYOUT,
    OUTPUT_LAYOUT,
    MOLD_LAYOUT,
    SEGMENT_LAYOUT,
    LINK_LAYOUT,
    GENESIS_LAYOUT,
    CAPTURE_LAYOUT,
)

COMMAND = COMMAND_LAYOUT.dtype()
RECORD = RECORD_LAYOUT.dtype()
REPORT = REPORT_LAYOUT.dtype()
OUTPUT = OUTPUT_LAYOUT.dtype()
MOLD = MOLD_LAYOUT.dtype()
SEGMENT = SEGMENT_LAYOUT.dtype()
LINK = LINK_LAYOUT.dtype()
GENESIS = GENESIS_LAYOUT.dtype()
CAPTURE = CAPTURE_LAYOUT.dtype()

COMMAND_BYTES = 40
CANCEL_BYTES = 16
RECORD_BYTES = 64
REPORT_BYTES = 48

assert COMMAND.itemsize == COMMAND_BYTES and RECORD.itemsize == RECORD_BYTES == OUTPUT.itemsize
assert REPORT.itemsize == REPORT_BYTES and MOLD.itemsize == 20
assert RECORD_LAYOUT.offsets()["type"] == RECORD_BYTES - COMMAND_BYTES
assert OUTPUT_LAYOUT.offsets()["checksum"] == REPORT_BYTES


def joined(*arrays: np.ndarray) -> np.ndarray:
    """COMMAND or RECORD arrays of one dtype as one.

    Their fields lie over one another, which np.concatenate takes apart.
    """
    dtype = arrays[0].dtype
    return np.concatenate([array.view(f"V{dtype.itemsize}") for array in arrays]).view(dtype)


def reports_of(outputs: np.ndarray) -> np.ndarray:
    """The REPORT[n] in OUTPUT[n]."""
    rows = outputs.view(np.uint8).reshape(-1, OUTPUT.itemsize)[:, :REPORT_BYTES]
    return np.ascontiguousarray(rows).view(REPORT).reshape(-1)
