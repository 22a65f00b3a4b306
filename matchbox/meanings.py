"""What each code means: the comment beside it in constants.py. Plain Python.

So the sentence stands where the number is declared, and help and documents say the same.
"""

import re
from enum import IntEnum
from pathlib import Path

from matchbox import constants

CODE = re.compile(r"^ {4}(?P<name>[A-Z_]+) = \w+(?:  # (?P<text>.*))?$")
CLASS = re.compile(r"^class (?P<name>\w+)\(")


def meanings(enum: type[IntEnum]) -> dict[int, str]:
    """Value to sentence of every code of an enum of `constants`, in declaration order."""
    result, inside = {}, False
    for line in Path(constants.__file__).read_text("utf-8").splitlines():
        if opened := CLASS.match(line):
            inside = opened["name"] == enum.__name__
        elif inside and (code := CODE.match(line)):
            result[enum[code["name"]].value] = code["text"] or ""
    return result
