"""The `matchbox` command as tests run it: in a process of its own, on a pipe or on a terminal."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
MATCHBOX = [sys.executable, "-m", "matchbox"]
TIMEOUT_S = 120.0
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Result(NamedTuple):
    status: int
    stdout: str
    stderr: str


def environment(**changes: str) -> dict[str, str]:
    base = {**os.environ, "PYTHONPATH": str(ROOT), **changes}
    return {name: value for name, value in base.items() if value != "-"}


def matchbox(*arguments: str, cwd: Path | None = None, **changes: str) -> Result:
    """Run to the end. Keyword arguments change the environment; "-" removes a variable."""
    done = subprocess.run(
        [*MATCHBOX, *arguments],
        cwd=cwd,
        env=environment(**changes),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    return Result(done.returncode, done.stdout, done.stderr)


class Running:
    """A command that runs beside the test; stdout and stderr are pipes."""

    def __init__(self, *arguments: str, **changes: str) -> None:
        self.process = subprocess.Popen(
            [*MATCHBOX, *arguments],
            env=environment(PYTHONUNBUFFERED="1", **changes),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdout and self.process.stderr
        self._pipes = {
            self.process.stdout.fileno(): bytearray(),
            self.process.stderr.fileno(): bytearray(),
        }
        self._out, self._err = self._pipes
        self._closed = set[int]()

    @property
    def stdout(self) -> str:
        return self._pipes[self._out].decode()

    @property
    def stderr(self) -> str:
        return self._pipes[self._err].decode()

    def wait_for(self, text: str) -> None:
        """Until it has printed `text`."""
        deadline = time.monotonic() + TIMEOUT_S
        while text not in self.stdout and text not in self.stderr:
            assert time.monotonic() < deadline, f"{text!r} is not in {self.stdout}{self.stderr}"
            if not self._read(1.0):
                raise AssertionError(f"ended without {text!r}: {self.stdout}{self.stderr}")

    def _read(self, timeout: float) -> bool:
        """Take what is there; False at the end of both pipes."""
        open_pipes = [fd for fd in self._pipes if fd not in self._closed]
        if not open_pipes:
            return False
        for fd in select.select(open_pipes, [], [], timeout)[0]:
            data = os.read(fd, 1 << 16)
            if not data:
                self._closed.add(fd)
            self._pipes[fd] += data
        return True

    def send_signal(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> Result:
        """Wait for the end."""
        deadline = time.monotonic() + TIMEOUT_S
        while self._read(1.0):
            assert time.monotonic() < deadline, f"does not end: {self.stdout}{self.stderr}"
        return Result(self.process.wait(TIMEOUT_S), self.stdout, self.stderr)

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe
            pipe.close()


def on_terminal(*arguments: str, **changes: str) -> tuple[int, str]:
    """Run with stdout and stderr on a terminal. Returns the status and all that was written."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [*MATCHBOX, *arguments],
        env=environment(**{"TERM": "xterm-256color", "NO_COLOR": "-", **changes}),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    written = bytearray()
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        if not select.select([controller], [], [], 1.0)[0]:
            continue
        try:
            data = os.read(controller, 1 << 16)
        except OSError:  # what Linux says when the other side is closed
            break
        if not data:
            break
        written += data
    os.close(controller)
    return process.wait(TIMEOUT_S), written.decode()
