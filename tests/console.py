"""Runs the sessions that a document shows, and compares what it shows with what happens.

    python -m tests.console README.md

A session is a block fenced as ```console. A line `$ command` is run by bash (one for the whole
document, so `&`, `kill %1` and variables work), in an empty folder beside `../shared`, with a state
folder and a network of its own. The lines below it are what the command prints, on stdout or
stderr: each must appear, in this order; other lines may lie between. `…` stands for anything within
a line, a line of `…` for any lines. A command must end with status 0; what runs in the background
is killed at the end.
"""

import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests import private_network

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND_TIMEOUT_S = 120.0
SETTLE_TIMEOUT_S = 120.0  # for what the background still has to print
MARKER = "console-status"


class Step(NamedTuple):
    command: str
    expected: list[str]


def steps(document: str) -> Iterator[Step]:
    """The commands of all sessions in a document, in order."""
    for block in BLOCK.findall(document):
        step: Step | None = None
        continued = False
        for line in block.splitlines():
            if continued and step:
                step = step._replace(command=f"{step.command}\n{line.removeprefix('> ')}")
            elif line.startswith("$ "):
                if step:
                    yield step
                step = Step(line[2:], [])
            elif step:
                step.expected.append(line)
            continued = line.endswith("\\") and step is not None and not step.expected
        if step:
            yield step


def first_missing(expected: list[str], printed: list[str]) -> str | None:
    """The first expected line that does not appear after those before it."""
    at = 0
    for line in expected:
        if line.strip() in ("", "…"):
            continue
        words = [re.sub(r"(\\ )+", r"\\s+", re.escape(part)) for part in line.strip().split("…")]
        pattern = re.compile(".*".join(words))
        while at < len(printed) and not pattern.fullmatch(printed[at].strip()):
            at += 1
        if at == len(printed):
            return line
        at += 1
    return None


class Session:
    """One bash in a folder."""

    def __init__(self, folder: Path) -> None:
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
            "PYTHONPATH": str(ROOT),
            "MATCHBOX_STATE_DIR": str(folder / ".state"),
            "NO_COLOR": "1",
            "COLUMNS": "100",
            "PYTHONUNBUFFERED": "1",
        }
        self._bash = subprocess.Popen(
            ["bash", "--norc"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self._bash.stdin and self._bash.stdout
        self._stdin, self._stdout = self._bash.stdin, self._bash.stdout
        os.set_blocking(self._stdout.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._stdout, selectors.EVENT_READ)
        self._count = 0

    def run(self, step: Step) -> str | None:
        """Run a step; returns what is wrong."""
        self._count += 1
        marker = re.compile(rf"^{MARKER} {self._count} (\d+)\n", re.MULTILINE)
        # A command that reads must not read the commands behind it.
        line = f"{{ {step.command}\n}} </dev/null; echo {MARKER} {self._count} $?\n"
        self._stdin.write(line.encode())
        self._stdin.flush()
        text, status, deadline = "", None, time.monotonic() + COMMAND_TIMEOUT_S
        while True:
            text += self._read(deadline)
            if status is None and (found := marker.search(text)):
                status, text = int(found[1]), text[: found.start()] + text[found.end() :]
                deadline = time.monotonic() + SETTLE_TIMEOUT_S
            missing = first_missing(step.expected, text.splitlines())
            if status is not None and (status or missing is None):
                break
            if time.monotonic() >= deadline:
                break
        printed = "\n".join(f"    {line}" for line in text.splitlines()[-40:])
        if status is None:
            wrong = f"did not end within {COMMAND_TIMEOUT_S:g} s"
        elif status:
            wrong = f"ended with status {status}"
        elif missing is not None:
            wrong = f"did not print: {missing}"
        else:
            return None
        return f"$ {step.command}\n  {wrong}\n  it printed:\n{printed}"

    def _read(self, deadline: float) -> str:
        if not self._selector.select(max(0.0, min(0.2, deadline - time.monotonic()))):
            return ""
        return (self._stdout.read() or b"").decode(errors="replace")

    def close(self) -> None:
        """End bash and all that it started."""
        os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.wait()
        self._stdin.close()
        self._stdout.close()


def check(document: Path) -> list[str]:
    """What is wrong with the sessions of a document."""
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base) / "main"
        folder.mkdir()
        shared = ROOT.parent / "shared"
        if shared.exists():
            (Path(base) / "shared").symlink_to(shared)
        session = Session(folder)
        try:
            for step in steps(document.read_text()):
                if "../shared" in step.command and not shared.exists():
                    continue
                if wrong := session.run(step):
                    return [wrong]
        finally:
            session.close()
    return []


if __name__ == "__main__":
    private_network.enter()
    problems = [problem for name in sys.argv[1:] for problem in check(Path(name))]
    print("\n".join(problems))
    sys.exit(1 if problems else 0)
