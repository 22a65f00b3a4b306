"""How fast commands leave: `--speed`. Plain Python.

max         as fast as they are taken
1, 2.5      at the times they have, so many times as fast
100000/s    so many a second, evenly
"""

from typing import NamedTuple

import click
import numpy as np

from matchbox.errors import BadInput

NS = 1_000_000_000
SLOWEST = 1e-6
LATEST = 2.0**62
"""ns from the start: a century and a half."""

EXPECTED = "expected max, a factor such as 1 or 2.5, or a rate such as 100000/s"


class Speed(NamedTuple):
    """One of both is 0, or both: as fast as possible."""

    factor: float = 0.0
    per_second: float = 0.0

    def due_ns(self, times_ns: np.ndarray) -> np.ndarray | None:
        """When each command may leave, i64[n] in ns from the start; None: at once.

        Args:
            times_ns: u64[n], times the commands have. Raises BadInput if a factor meets commands
                without times.
        """
        count = len(times_ns)
        if self.per_second:
            return whole_ns(np.arange(count) * (NS / self.per_second))
        if not self.factor or not count:
            return None
        if times_ns[0] == times_ns[-1]:
            raise BadInput(
                "--speed: the commands have no times: expected max or a rate as 100000/s"
            )
        elapsed = np.maximum.accumulate(times_ns) - times_ns[0]
        return whole_ns(elapsed / self.factor)


def whole_ns(values: np.ndarray) -> np.ndarray:
    return np.round(np.minimum(values, LATEST)).astype(np.int64)


class SpeedType(click.ParamType):
    """The value of `--speed`."""

    name = "max|FACTOR|RATE/s"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Speed:
        if isinstance(value, Speed):
            return value
        text = str(value)
        if text == "max":
            return Speed()
        try:
            number = float(text.removesuffix("/s"))
        except ValueError:
            number = 0.0
        if not SLOWEST <= number < 1e12:
            self.fail(f"{text!r}: {EXPECTED}", param, ctx)
        return Speed(per_second=number) if text.endswith("/s") else Speed(factor=number)
