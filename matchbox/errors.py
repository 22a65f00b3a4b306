"""Errors that a user is meant to read: one sentence and an exit status each."""

from matchbox.constants import Exit


class MatchboxError(Exception):
    """Base of all. `str(error)` names the file, line, field or address and what was expected."""

    exit = Exit.CHECK_FAILED


class BadInput(MatchboxError, ValueError):
    """A file, row, option value or stream is not what it should be."""

    exit = Exit.BAD_INPUT


class Unavailable(MatchboxError):
    """A port, address, folder, lock or device cannot be had."""

    exit = Exit.UNAVAILABLE


class LogRefused(MatchboxError):
    """A log is in use, damaged or foreign. Nothing was changed."""

    exit = Exit.LOG_REFUSED


class Halted(MatchboxError):
    """The engine stopped itself; the code is one of `engine.HALT`."""

    exit = Exit.HALTED
