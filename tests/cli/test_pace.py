"""How fast commands leave."""

import click
import numpy as np
import pytest

from matchbox.cli.pace import Speed, SpeedType
from matchbox.errors import BadInput

TIMES = np.array([1000, 1000, 3000, 2000, 9000], np.uint64)


@pytest.mark.parametrize(
    ("text", "speed"),
    [
        ("max", Speed()),
        ("1", Speed(factor=1)),
        ("2.5", Speed(factor=2.5)),
        ("100000/s", Speed(per_second=100000)),
        ("1e6/s", Speed(per_second=1e6)),
    ],
)
def test_speed(text: str, speed: Speed) -> None:
    assert SpeedType().convert(text, None, None) == speed
    assert SpeedType().convert(speed, None, None) == speed


@pytest.mark.parametrize(
    "text", ["", "fast", "0", "-1", "nan", "inf", "1/m", "/s", "0/s", "1e-7/s"]
)
def test_no_speed(text: str) -> None:
    with pytest.raises(click.BadParameter, match="expected max, a factor"):
        SpeedType().convert(text, None, None)


def test_as_recorded_and_never_back() -> None:
    due = Speed(factor=1).due_ns(TIMES)
    assert due is not None
    assert due.tolist() == [0, 0, 2000, 2000, 8000]
    due = Speed(factor=2).due_ns(TIMES)
    assert due is not None
    assert due.tolist() == [0, 0, 1000, 1000, 4000]


def test_even_rate() -> None:
    due = Speed(per_second=1e6).due_ns(TIMES)
    assert due is not None
    assert due.tolist() == [0, 1000, 2000, 3000, 4000]


def test_slower_than_numbers_go() -> None:
    due = Speed(per_second=1e-6).due_ns(np.zeros(10_000, np.uint64))
    assert due is not None
    assert due[1] == 10**15
    assert (np.diff(due) >= 0).all()


def test_at_once() -> None:
    assert Speed().due_ns(TIMES) is None
    assert Speed(factor=1).due_ns(TIMES[:0]) is None


def test_commands_without_times() -> None:
    with pytest.raises(BadInput, match="no times"):
        Speed(factor=1).due_ns(np.zeros(3, np.uint64))
