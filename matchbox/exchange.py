"""An exchange: the engine with its log, its sockets and its threads. The control plane, in plain
Python.

    exchange = Exchange(config)
    exchange.start()    lock the log, verify it, replay it; then new segments, sockets, threads
    exchange.stop()     take no further command, finish those taken, deliver every report, end the
    stream, sync the log

Nothing is written before the log has been read and understood, and no port opens before the book
is whole. With `commands` it executes an array of records instead of listening for clients.
"""

import base64
import os
import threading
import time
from types import TracebackType

import numba
import numpy as np

from matchbox import connections, engine, idle, ring
from matchbox.address import Address, parse
from matchbox.book import digest
from matchbox.book.rows import rows
from matchbox.book.state import Book
from matchbox.config import Config
from matchbox.constants import Halt
from matchbox.decode.feed import allow, fed, source
from matchbox.engine import CELL_WORDS, STOP, Core, Role, Stop
from matchbox.errors import Halted
from matchbox.jit import digest as build_digest
from matchbox.memory import address_of
from matchbox.order_entry import OrderEntry
from matchbox.publish.sender import Sender, open_publisher
from matchbox.recovery import ENTRY_WORDS, Progress, Recovered, recover
from matchbox.schema import RECORD
from matchbox.wal.directory import Limits, LogDirectory
from matchbox.wal.state import COMMITTED

GRACE_S = 2.0
"""How long an orderly stop waits for clients to read what is theirs."""

DEDICATED_CORES = 4
POLL_S = 0.005
SCRATCH_WORDS = 4


class Exchange:
    """One exchange in this process.

    Attributes:
        address: where clients connect, None when it executes records.
        group: where reports go.
        stream: identity of the report stream.
    """

    def __init__(
        self, config: Config, commands: np.ndarray | None = None, paced: bool = False
    ) -> None:
        """Nothing is opened yet.

        `commands`: RECORD[n] to execute instead of listening; `paced`: only as far as `allow` says.
        """
        self.config, self.listening, self.paced = config, commands is None, paced
        self.records = np.zeros(0, RECORD) if commands is None else commands
        self.group: Address = parse(config.publish.group)
        self.address: Address | None = None
        self.stream = ""
        self.failure = ""
        self.directory: LogDirectory | None = None
        self.sender: Sender | None = None
        self.entry: OrderEntry | None = None
        self.core: Core | None = None
        self.table: connections.Connections | None = None
        self.book: Book | None = None
        self.threads: list[threading.Thread] = []
        self.bell = -1
        self.sequences = (0, 0)
        self.first_sequence = 0

    # -- start ----------------------------------------------------------------------------------

    def start(self, progress: Progress | None = None) -> None:
        """Recover and open. `progress` is told commands replayed and in all.

        Raises LogRefused, Unavailable or BadInput; then nothing is left open.
        """
        try:
            self.open(progress)
            self.start_threads()
        except BaseException:
            self.close()
            raise

    def open(self, progress: Progress | None = None) -> None:
        """All of `start` but the threads that do the work."""
        config = self.config
        limits = Limits(config.book.orders, config.book.levels, config.book.instruments)
        self.directory = LogDirectory(config.log_folder, limits)
        recovered = recover(self.directory, config.book.prefault, progress)
        self.book = recovered.book
        logs = self.directory.start(build_digest(), config.log.segment_mib << 20, config.log.ahead)
        self.stream = stream_name(self.directory)
        unsent = sum(entries.size for entries in recovered.unsent) // ENTRY_WORDS
        self.sender = open_publisher(
            config.publish.group,
            self.stream,
            next_sequence=recovered.report_sequence - unsent + 1,
            interface=config.interface,
            ttl=config.publish.ttl,
            mtu=config.publish.mtu,
            heartbeat_s=config.publish.heartbeat_s,
        )
        count = config.entry.connections if self.listening else 1
        self.table = connections.allocate(
            count,
            self.config.entry.out_kib << 10,
            last_login=recovered.last_login,
            last_time_ns=recovered.last_time_ns,
        )
        self.bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.scratch = np.zeros(SCRATCH_WORDS, np.uint64)
        self.core = Core(
            ring=ring.allocate(config.engine.ring_slots),
            source=source(self.records),
            connections=self.table,
            commands=logs[0],
            reports=logs[1],
            book=recovered.book,
            outbox=recovered.outbox,
            publisher=self.sender.publisher,
            cells=np.zeros(CELL_WORDS, np.uint64),
            bell=np.array([self.bell, address_of(self.scratch)], np.int64),
        )
        if self.paced:
            self.allow(0)
        self.first_sequence = int(logs[0].cells[int(COMMITTED)])
        compile_for(engine.run, *self.arguments(Role.MATCH))
        self.send_unsent(recovered)
        if self.listening:
            self.entry = OrderEntry(config.listen, self.table)
            self.address = Address(*self.entry.address[:2])
            self.entry.start()

    def arguments(self, roles: int) -> tuple[Core, np.uint64, np.uint64, np.ndarray]:
        assert self.core is not None
        strategy = idle.STRATEGIES.index(self.config.engine.idle)
        return self.core, np.uint64(roles), np.uint64(strategy), idle.allocate()

    def send_unsent(self, recovered: Recovered) -> None:
        """Log and send what a crash kept from leaving."""
        assert self.core is not None
        for entries in recovered.unsent:
            self.core.outbox[: entries.size] = entries
            halt = int(engine.send_unsent(self.core, np.uint64(entries.size // ENTRY_WORDS)))
            if halt:
                name = Halt(halt).name.lower()
                raise Halted(f"while sending what a crash left: halt {halt}, {name}")

    def start_threads(self) -> None:
        intake = Role.DECODE if self.listening else Role.FEED
        for roles in [intake, Role.MATCH] if self.dedicated else [intake | Role.MATCH]:
            thread = threading.Thread(
                target=self.run, args=(roles,), name=f"matchbox-{roles}", daemon=True
            )
            self.threads.append(thread)
            thread.start()

    @property
    def dedicated(self) -> bool:
        """Whether decoding has a thread of its own."""
        if self.config.engine.threading == "auto":
            return (os.cpu_count() or 1) >= DEDICATED_CORES
        return self.config.engine.threading == "dedicated"

    def run(self, roles: int) -> None:
        try:
            halt = Halt(int(engine.run(*self.arguments(roles))))
        except Exception as error:  # a thread that dies silently would hang the exchange
            self.failure = f"{type(error).__name__}: {error}"
            return
        if halt != Halt.NONE:
            reason = self.directory.failure if self.directory else ""
            self.failure = f"halt {halt:d}, {halt.name.lower()}" + (f": {reason}" if reason else "")

    # -- while it runs --------------------------------------------------------------------------

    @property
    def command_sequence(self) -> int:
        """Of the last command in the log."""
        return int(self.core.commands.cells[int(COMMITTED)]) if self.core else self.sequences[0]

    @property
    def report_sequence(self) -> int:
        """Of the last report in the report log."""
        return int(self.core.reports.cells[int(COMMITTED)]) if self.core else self.sequences[1]

    @property
    def halted(self) -> str:
        """Why the engine stopped itself; "" if it did not."""
        return self.failure

    @property
    def executed(self) -> int:
        """Commands of this start that are in the log and matched, or about to be."""
        return self.command_sequence - self.first_sequence

    def allow(self, count: int) -> None:
        """Let the first `count` records of `commands` be executed."""
        assert self.core is not None
        allow(self.core.source, count)

    def wait(self) -> None:
        """Until all records of `commands` are executed. Raises Halted."""
        assert self.core is not None
        while fed(self.core.source) < self.records.size or self.executed < self.records.size:
            if self.failure:
                raise Halted(f"the engine stopped itself: {self.failure}")
            time.sleep(POLL_S)

    @property
    def digest(self) -> str:
        """Names the book's state. Only while no thread runs: before `start` returns, or after
        `stop`."""
        assert self.book is not None and not self.threads
        return digest.digest(*rows(self.book), self.report_sequence)

    # -- stop -----------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop in order. What was taken is executed, logged and sent. Harmless if stopped
        already."""
        if self.core is not None and self.threads:
            cells = self.core.cells
            cells[int(STOP)] = Stop.INTAKE
            if self.entry:
                self.entry.stop()
            *intake, matcher = self.threads
            for thread in intake:
                thread.join()
            cells[int(STOP)] = Stop.DRAIN
            matcher.join(GRACE_S)
            cells[int(STOP)] = Stop.LEAVE
            matcher.join()
            self.threads.clear()
        self.close()

    def close(self) -> None:
        """Let go of everything. No thread runs any more."""
        if self.core is not None:
            self.sequences = self.command_sequence, self.report_sequence
        if self.entry:
            self.entry.close(halted=bool(self.failure))
        elif self.table is not None:
            connections.free(self.table)
        if self.sender:
            self.sender.close()
        self.core = self.entry = self.table = self.sender = None
        if self.directory:
            self.directory.close()
            self.directory = None
        if self.bell >= 0:
            os.close(self.bell)
            self.bell = -1

    def __enter__(self) -> "Exchange":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def stream_name(directory: LogDirectory) -> str:
    """Identity of the report stream: 10 characters.

    It names the log and the first epoch since the machine was started: at level `process` a
    restart of the machine may have lost reports that were sent, and their numbers then mean
    something else.
    """
    log = base64.b32encode(directory.uuid).decode()[:6]
    return f"{log}{directory.stream_epoch & 0xFFFF:04X}"


def compile_for(kernel: numba.core.dispatcher.Dispatcher, *arguments: object) -> None:
    """Compile a kernel for these arguments, or read it from the cache, before anybody waits for
    it."""
    kernel.compile(tuple(numba.typeof(argument) for argument in arguments))
