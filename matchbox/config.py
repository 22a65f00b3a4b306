"""The configuration of an exchange: a TOML file, checked whole at the start. Plain Python.

Every key has a default, so an empty file is a development exchange on loopback. A key that does
not exist, has the wrong type or is out of range is refused with the file, the key and what was
expected; nothing is guessed or clipped. Each field declares its own check, and the tables in
docs/CLI.md are made from these declarations.

    [book]
    orders = 65536
    [publish]
    group = "239.1.1.1:5001"
"""

import os
import tomllib
from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields, replace
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path
from typing import Any, NamedTuple

from matchbox import address
from matchbox.constants import (
    INSTRUMENTS_DEFAULT,
    INSTRUMENTS_MAX,
    LEVELS_DEFAULT,
    LEVELS_MAX,
    ORDERS_DEFAULT,
    ORDERS_MAX,
)
from matchbox.errors import BadInput, Unavailable

ENTRY_DEFAULT = "127.0.0.1:9001"
GROUP_DEFAULT = "239.1.1.1:5001"
DEVELOPMENT_FOLDER = "development"


class Rule(NamedTuple):
    """What a field accepts: `convert` returns the value or None, `expected` says it in words."""

    convert: Callable[[Any], Any]
    expected: str
    text: str


def setting(default: Any, rule: Rule) -> Any:
    return field(default=default, metadata={"rule": rule})


def whole(default: int, low: int, high: int, text: str) -> Any:
    def convert(value: Any) -> int | None:
        good = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return value if good else None

    return setting(default, Rule(convert, f"a whole number from {low} to {high}", text))


def power_of_two(default: int, low: int, high: int, text: str) -> Any:
    def convert(value: Any) -> int | None:
        good = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return value if good and value & (value - 1) == 0 else None

    return setting(default, Rule(convert, f"a power of two from {low} to {high}", text))


def number(default: float, low: float, high: float, text: str) -> Any:
    def convert(value: Any) -> float | None:
        good = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if good and low <= value <= high else None

    return setting(default, Rule(convert, f"a number from {low:g} to {high:g}", text))


def switch(default: bool, text: str) -> Any:
    rule = Rule(lambda value: value if isinstance(value, bool) else None, "true or false", text)
    return setting(default, rule)


def choice(default: str, options: tuple[str, ...], text: str) -> Any:
    def convert(value: Any) -> str | None:
        return value if isinstance(value, str) and value in options else None

    return setting(default, Rule(convert, "one of " + ", ".join(options), text))


def place(default: str, text: str) -> Any:
    """A folder; `~` and `~user` as a shell takes them."""

    def convert(value: Any) -> str | None:
        try:
            Path(value).expanduser()
        except (TypeError, RuntimeError):  # no text; no such user
            return None
        return value if "\0" not in value else None

    return setting(default, Rule(convert, "a folder", text))


def words(default: str, text: str) -> Any:
    def convert(value: Any) -> str | None:
        return value if isinstance(value, str) and "\0" not in value else None

    return setting(default, Rule(convert, "a text", text))


def destination(default: str, text: str) -> Any:
    """`GROUP:PORT` or `HOST:PORT` to send to."""

    def convert(value: Any) -> str | None:
        try:
            return str(address.parse(value)) if isinstance(value, str) else None
        except BadInput:
            return None

    expected = "GROUP:PORT or HOST:PORT with an IPv4 address and a port from 1 to 65535"
    return setting(default, Rule(convert, expected, text))


def listener(default: str, text: str) -> Any:
    """`HOST:PORT` to listen at; port 0 takes a free one."""

    def convert(value: Any) -> str | None:
        try:
            host, port = parse_listener(value)
        except (ValueError, AttributeError):
            return None
        return f"{host}:{port}"

    expected = "HOST:PORT with an IPv4 address and a port from 0 (any free one) to 65535"
    return setting(default, Rule(convert, expected, text))


def parse_listener(text: str) -> tuple[str, int]:
    """Raises ValueError if `text` is not an address to listen at."""
    host, _, port = text.rpartition(":")
    if host == "localhost":
        host = "127.0.0.1"
    try:
        listening = IPv4Address(host)
    except AddressValueError:
        raise ValueError(text) from None
    if listening.is_multicast or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError(text)
    return host, int(port)


@dataclass(frozen=True)
class BookConfig:
    """Limits of the book, kept in the log's first record: a log keeps those it was made with."""

    orders: int = whole(ORDERS_DEFAULT, 1, ORDERS_MAX, "live orders at the most")
    levels: int = whole(LEVELS_DEFAULT, 1, LEVELS_MAX, "price levels in use at the most")
    instruments: int = whole(
        INSTRUMENTS_DEFAULT, 1, INSTRUMENTS_MAX, "instruments are numbered from 1 to this"
    )
    prefault: bool = switch(False, "touch all memory at start instead of when it is first used")


@dataclass(frozen=True)
class LogConfig:
    """Where and how the two logs are kept."""

    folder: str = place("", "folder of the logs; empty: in the state folder")
    segment_mib: int = power_of_two(64, 1, 1024, "size of a segment, MiB")
    ahead: int = whole(2, 1, 64, "segments kept ready")


@dataclass(frozen=True)
class EntryConfig:
    """Order entry over TCP. Whoever can connect is trusted as the operator account."""

    listen: str = listener(ENTRY_DEFAULT, "where raw commands are taken")
    connections: int = power_of_two(256, 1, 1 << 14, "clients at a time")
    out_kib: int = whole(
        1024,
        1,
        1 << 20,
        "reports that may wait for one client, KiB; a client that lets more wait is dropped",
    )


@dataclass(frozen=True)
class PublishConfig:
    """Reports over UDP."""

    group: str = destination(GROUP_DEFAULT, "multicast group, or one receiver")
    interface: str = words("lo", "interface by name or address; multicast only")
    ttl: int = whole(0, 0, 255, "hops a datagram may go; 0: stays on this machine")
    mtu: int = whole(1500, 128, 65535, "largest IP packet")
    heartbeat_s: float = number(1.0, 0.01, 3600, "a quiet stream says so this often, seconds")


@dataclass(frozen=True)
class EngineConfig:
    """Threads and what they do when idle."""

    threading: str = choice(
        "auto",
        ("auto", "shared", "dedicated"),
        "one thread, or one that decodes and one that matches; auto: dedicated from 4 cores up",
    )
    idle: str = choice(
        "backoff",
        ("backoff", "yield", "spin"),
        "backoff parks when quiet; yield and spin keep a core busy for lower latency",
    )
    ring_slots: int = power_of_two(1 << 14, 64, 1 << 22, "commands between decoding and matching")


@dataclass(frozen=True)
class Config:
    """One exchange. `Config()` is the development exchange."""

    book: BookConfig = BookConfig()
    log: LogConfig = LogConfig()
    entry: EntryConfig = EntryConfig()
    publish: PublishConfig = PublishConfig()
    engine: EngineConfig = EngineConfig()
    base: Path = Path()  # what relative folders are relative to: where the file is

    @property
    def log_folder(self) -> Path:
        if self.log.folder:
            return self.base / Path(self.log.folder).expanduser()
        return state_folder() / DEVELOPMENT_FOLDER

    @property
    def listen(self) -> tuple[str, int]:
        return parse_listener(self.entry.listen)

    @property
    def interface(self) -> str | None:
        """For the publisher: None where the address is not a multicast group."""
        return self.publish.interface if address.parse(self.publish.group).multicast else None


def state_folder() -> Path:
    """MATCHBOX_STATE_DIR, else matchbox's folder in XDG_STATE_HOME, else in ~/.local/state."""
    chosen = os.environ.get("MATCHBOX_STATE_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_STATE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".local" / "state") / "matchbox"
    except RuntimeError:
        raise Unavailable("this user has no home folder: expected MATCHBOX_STATE_DIR") from None


def tables() -> dict[str, Field[Any]]:
    """The tables of the file: name to the field of Config that holds it."""
    return {table.name: table for table in fields(Config) if table.name != "base"}


def rules(table: Any) -> dict[str, Rule]:
    """The keys of one table, a dataclass or an instance of it."""
    return {item.name: item.metadata["rule"] for item in fields(table)}


def load(path: str | Path) -> Config:
    """Read and check a file. Raises BadInput with the file, the key and what was expected."""
    path = Path(path)
    try:
        values = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}: expected a TOML file") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: byte {error.start} is not UTF-8: expected a TOML file") from None
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{path}: not TOML: {error}") from None
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits, as deep a list
        raise BadInput(f"{path}: {error}: expected smaller values") from None
    return replace(check(values, str(path)), base=path.parent)


def check(values: dict[str, Any], source: str) -> Config:
    """A Config of parsed TOML; `source` is named in errors. Raises BadInput."""
    config = Config()
    refuse_unknown(values, list(tables()), source, "table")
    for name, given in values.items():
        if not isinstance(given, dict):
            raise BadInput(f"{source}: {name}: {shown(given)}: expected a table, [{name}]")
        table = getattr(config, name)
        known = rules(table)
        refuse_unknown(given, list(known), source, "key", f"{name}.")
        changes = {}
        for key, value in given.items():
            changes[key] = known[key].convert(value)
            if changes[key] is None:
                raise BadInput(
                    f"{source}: {name}.{key}: {shown(value)}: expected {known[key].expected}"
                )
        config = replace(config, **{name: replace(table, **changes)})
    return config


def refuse_unknown(
    given: dict[str, Any], known: list[str], source: str, what: str, prefix: str = ""
) -> None:
    for name in given:
        if name not in known:
            expected = ", ".join(prefix + other for other in known)
            raise BadInput(f"{source}: {prefix}{name}: unknown {what}: expected one of {expected}")


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
