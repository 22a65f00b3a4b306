"""Configuration: defaults, and one clear sentence for everything that is not what it should be."""

from dataclasses import fields
from pathlib import Path

import pytest

from matchbox import config
from matchbox.config import Config
from matchbox.errors import BadInput, Unavailable


def write(folder: Path, text: str) -> Path:
    path = folder / "exchange.toml"
    path.write_text(text)
    return path


def test_an_empty_file_is_the_development_exchange(tmp_path: Path) -> None:
    loaded = config.load(write(tmp_path, ""))
    assert loaded == Config(base=tmp_path)
    assert loaded.listen == ("127.0.0.1", 9001)
    assert (loaded.publish.group, loaded.interface, loaded.publish.ttl) == (
        "239.1.1.1:5001",
        "lo",
        0,
    )


def test_every_table_and_key(tmp_path: Path) -> None:
    loaded = config.load(
        write(
            tmp_path,
            """
            [book]
            orders = 1000
            levels = 10
            instruments = 3
            prefault = true
            [log]
            folder = "logs"
            segment_mib = 4
            ahead = 1
            [entry]
            listen = "localhost:0"
            connections = 2
            out_kib = 64
            [publish]
            group = "127.0.0.1:6000"
            interface = "eth0"
            ttl = 3
            mtu = 9000
            heartbeat_s = 2
            [engine]
            threading = "dedicated"
            idle = "spin"
            ring_slots = 128
            """,
        )
    )
    for table in config.tables():
        for key in config.rules(getattr(loaded, table)):
            default = getattr(getattr(Config(), table), key)
            assert getattr(getattr(loaded, table), key) != default, (
                f"{table}.{key} is not in the test"
            )
    assert loaded.log_folder == tmp_path / "logs"
    assert loaded.listen == ("127.0.0.1", 0)
    assert loaded.interface is None, "a unicast address names its interface"
    assert loaded.publish.heartbeat_s == 2.0


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        ("[books]", "books: unknown table", "book, log, entry, publish, engine"),
        ("book = 3", "book: 3", "a table, [book]"),
        ("[book]\norder = 3", "book.order: unknown key", "book.orders, book.levels"),
        ("[book]\norders = 0", "book.orders: 0", "a whole number from 1 to 268435456"),
        ("[book]\norders = 2.5", "book.orders: 2.5", "a whole number"),
        ("[book]\norders = true", "book.orders: True", "a whole number"),
        ('[book]\norders = "many"', "book.orders: 'many'", "a whole number"),
        ("[book]\nprefault = 1", "book.prefault: 1", "true or false"),
        ("[log]\nfolder = 1", "log.folder: 1", "a folder"),
        ('[log]\nfolder = "~no_such_user/x"', "log.folder: '~no_such_user/x'", "a folder"),
        ('[log]\nfolder = "a\\u0000b"', "log.folder: 'a\\x00b'", "a folder"),
        ("[log]\nsegment_mib = 3", "log.segment_mib: 3", "a power of two from 1 to 1024"),
        ('[entry]\nlisten = "127.0.0.1"', "entry.listen: '127.0.0.1'", "HOST:PORT"),
        ('[entry]\nlisten = "127.0.0.1:65536"', "entry.listen", "HOST:PORT"),
        ('[entry]\nlisten = "239.1.1.1:5001"', "entry.listen", "HOST:PORT"),
        ('[entry]\nlisten = ":5001"', "entry.listen", "HOST:PORT"),
        ('[entry]\nlisten = "example.com:5001"', "entry.listen", "HOST:PORT"),
        ("[entry]\nlisten = 5001", "entry.listen: 5001", "HOST:PORT"),
        ('[publish]\ngroup = "239.1.1.1"', "publish.group: '239.1.1.1'", "GROUP:PORT"),
        ('[publish]\ngroup = "239.1.1.1:0"', "publish.group", "GROUP:PORT"),
        ('[publish]\ngroup = "239.1.1.1:' + "9" * 5000 + '"', "publish.group", "GROUP:PORT"),
        ("[publish]\nttl = 256", "publish.ttl: 256", "from 0 to 255"),
        ("[publish]\nheartbeat_s = nan", "publish.heartbeat_s: nan", "a number from 0.01 to 3600"),
        ('[engine]\nidle = "sleep"', "engine.idle: 'sleep'", "one of backoff, yield, spin"),
        ("[engine]\nring_slots = []", "engine.ring_slots: []", "a power of two"),
    ],
)
def test_refused(text: str, key: str, expected: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    with pytest.raises(BadInput) as raised:
        config.load(path)
    told = str(raised.value)
    assert told.startswith(f"{path}: {key}")
    assert "expected" in told
    assert expected in told.partition("expected")[2]


def test_not_toml(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"exchange\.toml: not TOML: "):
        config.load(write(tmp_path, "[book"))
    for value in ("9" * 5000, "[" * 5000):
        with pytest.raises(BadInput, match="expected smaller values"):
            config.load(write(tmp_path, f"[book]\norders = {value}"))
    path = tmp_path / "exchange.toml"
    path.write_bytes(b"\xff")
    with pytest.raises(BadInput, match="not UTF-8"):
        config.load(path)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file.*expected a TOML file"):
        config.load(tmp_path / "absent.toml")
    with pytest.raises(BadInput, match="Is a directory"):
        config.load(tmp_path)


def test_state_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MATCHBOX_STATE_DIR", "/a")
    monkeypatch.setenv("XDG_STATE_HOME", "/b")
    monkeypatch.setenv("HOME", "/c")
    assert Config().log_folder == Path("/a/development")
    monkeypatch.delenv("MATCHBOX_STATE_DIR")
    assert config.state_folder() == Path("/b/matchbox")
    monkeypatch.delenv("XDG_STATE_HOME")
    assert config.state_folder() == Path("/c/.local/state/matchbox")

    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(Unavailable, match="expected MATCHBOX_STATE_DIR"):
        config.state_folder()


def test_defaults_pass_their_own_checks() -> None:
    for table in config.tables():
        values = getattr(Config(), table)
        for item in fields(values):
            value = getattr(values, item.name)
            assert item.metadata["rule"].convert(value) == value, f"{table}.{item.name}"
