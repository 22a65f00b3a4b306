"""The whole path: `python -m bench.spine [FILE] [--json]`. Default: a seeded session of our own.

    file to UDP   file -> ring -> log -> book -> report log -> datagrams, on one thread; nobody
                  subscribes. The timer runs from the first command to the last datagram given to
                  the kernel; both logs are mapped files, whose next segments a thread makes
                  meanwhile.
    stages        share of each step of that path, in cycles, from a run of its own
    TCP to UDP    `matchbox serve` with its default threads, a client that sends the file's commands
                  as fast as they are taken and reads its own reports, and a subscriber: three
                  processes. The timer runs from the first byte sent to the last own report read.
    idle          CPU of that `serve` while nothing happens

Rates are medians of interleaved rounds.
"""

import argparse
import json
import os
import re
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from matchbox.atomics import U, cycles
from matchbox.config import BookConfig, Config, LogConfig, PublishConfig
from matchbox.constants import Exit
from matchbox.decode import files, wire
from matchbox.decode.feed import COUNT, POSITION, feed_step
from matchbox.engine import BATCH, Stage, match_step
from matchbox.errors import MatchboxError
from matchbox.exchange import Exchange
from matchbox.generate import session
from matchbox.jit import kernel
from matchbox.publish.own import flush

GENERATED = 1_000_000
IDLE_S = 5.0
SERVE_TIMEOUT_S = 180
FEED = len(Stage)


@kernel(entry=True)
def feed_through(core, stages):
    """Execute everything in `core.source` on this thread. Returns a `Halt` code.

    stages: u64[len(Stage) + 1], receives the cycles of each stage and of feeding, or None.
    """
    fed = core.source.cells
    while fed[POSITION] < fed[COUNT]:
        start = U(0) if stages is None else cycles()
        feed_step(core.source, core.ring, BATCH)
        if stages is not None:
            stages[FEED] += cycles() - start
        done = U(1)
        while done != U(0):
            done, halt = match_step(core, stages)
            if halt != U(0):
                return halt
    flush(core.connections)
    return U(0)


def free_port(kind: socket.SocketKind) -> int:
    with socket.socket(socket.AF_INET, kind) as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def configuration(folder: Path, group: str) -> Config:
    return Config(
        book=BookConfig(orders=1 << 20, prefault=True),
        log=LogConfig(folder=str(folder), segment_mib=64, ahead=4),
        publish=PublishConfig(group=group),
    )


def file_to_udp(records: np.ndarray, stages: np.ndarray | None) -> tuple[float, int, int]:
    """Seconds, reports and page faults of one run."""
    folder = Path(tempfile.mkdtemp(prefix="matchbox-spine-"))
    try:
        exchange = Exchange(
            configuration(folder, f"239.255.77.1:{free_port(socket.SOCK_DGRAM)}"), records
        )
        exchange.open()
        faults = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        start = time.perf_counter()
        halt = int(feed_through(exchange.core, stages))
        seconds = time.perf_counter() - start
        faults = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - faults
        assert halt == 0, f"halted with code {halt}"
        assert exchange.sender is not None and exchange.sender.counters["dropped"] == 0
        reports = exchange.sender.counters["reports"]
        exchange.stop()
        return seconds, reports, faults
    finally:
        shutil.rmtree(folder)


class Serve:
    """`matchbox serve` in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.group = f"239.255.77.2:{free_port(socket.SOCK_DGRAM)}"
        path = folder / "exchange.toml"
        path.write_text(
            f'[book]\nprefault = true\n[log]\nfolder = "{folder / "log"}"\n'
            "ahead = 4\n"
            f'[entry]\nlisten = "127.0.0.1:0"\n[publish]\ngroup = "{self.group}"\n'
        )
        command = [sys.executable, "-m", "matchbox", "serve", "--config", str(path)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = 0
        for line in self.process.stdout:
            if found := re.search(r"orders\s+127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
            if line.strip().startswith("stop"):
                break

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> str:
        self.process.send_signal(signal.SIGTERM)
        return self.process.communicate(timeout=SERVE_TIMEOUT_S)[0]


def peer(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.peers", *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "ready"
    return process


def tcp_to_udp(data: Path, commands: int) -> dict[str, Any]:
    """One run with a client and a subscriber; then the idle CPU."""
    folder = Path(tempfile.mkdtemp(prefix="matchbox-spine-"))
    serve = Serve(folder)
    try:
        subscriber = peer("subscriber", serve.group)
        client = peer("client", str(serve.port), str(data))
        sent = json.loads(client.communicate("go\n")[0])
        time.sleep(0.5)
        before, start = serve.cpu_s(), time.monotonic()
        time.sleep(IDLE_S)
        idle = (serve.cpu_s() - before) / (time.monotonic() - start)
        said = serve.stop()
        heard = json.loads(subscriber.communicate()[0])
    finally:
        serve.process.kill()
        shutil.rmtree(folder)
    assert sent["alive"], "the engine closed the connection"
    found = re.search(r"report_sequence (\d+)", said)
    assert found is not None, said
    made = int(found[1])
    return {
        "commands_s": commands / sent["done_s"],
        "own_reports": sent["reports"],
        "reports": made,
        "heard": heard["reports"],
        "missing": made - heard["reports"],
        "idle_cpu": idle,
    }


def measure(records: np.ndarray, rounds: int) -> dict[str, Any]:
    rates, tcp = [], []
    file_to_udp(records[:1000], None)  # compiles
    with tempfile.TemporaryDirectory(prefix="matchbox-spine-") as folder:
        data = Path(folder) / "commands.wire"
        data.write_bytes(wire.encode(records))
        for _ in range(rounds):
            seconds, reports, faults = file_to_udp(records, None)
            rates.append((records.size / seconds, faults))
            tcp.append(tcp_to_udp(data, records.size))
    stages = np.zeros(len(Stage) + 1, np.uint64)
    file_to_udp(records[:1000], stages)
    stages[:] = 0
    file_to_udp(records, stages)
    names = [*(stage.name.lower() for stage in Stage), "feed"]
    return {
        "commands": records.size,
        "reports": reports,
        "file_to_udp_commands_s": statistics.median(rate for rate, _ in rates),
        "file_to_udp_all": [round(rate) for rate, _ in rates],
        "page_faults": [faults for _, faults in rates],
        "stages": {
            name: round(float(c / stages.sum()), 3) for name, c in zip(names, stages, strict=True)
        },
        "tcp_to_udp_commands_s": statistics.median(run["commands_s"] for run in tcp),
        "tcp_to_udp_all": tcp,
        "idle_cpu": statistics.median(run["idle_cpu"] for run in tcp),
    }


def text(result: dict[str, Any]) -> str:
    def million(rates: list[float]) -> str:
        return f"median of {[round(rate / 1e6, 2) for rate in rates]} million commands/s"

    runs = result["tcp_to_udp_all"]
    counts = [(run["own_reports"], run["reports"], run["heard"], run["missing"]) for run in runs]
    return "\n".join(
        [
            f"{result['commands']:,} commands, {result['reports']:,} reports",
            f"file to UDP  {result['file_to_udp_commands_s'] / 1e6:.2f}, "
            f"{million(result['file_to_udp_all'])}; page faults {result['page_faults']}",
            f"stages       {result['stages']}",
            f"TCP to UDP   {result['tcp_to_udp_commands_s'] / 1e6:.2f}, "
            f"{million([run['commands_s'] for run in runs])}",
            f"             own reports, reports, heard, missing: {counts}",
            f"idle         {result['idle_cpu']:.1%} of one core",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.spine",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("file", nargs="?", help="any file of commands")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    try:
        records = files.read(arguments.file) if arguments.file else session(GENERATED, seed=1)
        result = measure(records, arguments.rounds)
    except MatchboxError as error:
        print(f"bench.spine: error: {error}", file=sys.stderr)
        return int(error.exit)
    if arguments.json:
        print(json.dumps(result))
        return int(Exit.OK)
    print(text(result))
    return int(Exit.OK)


if __name__ == "__main__":
    sys.exit(main())
