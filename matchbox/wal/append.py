"""Appending to a log: one checksum and one 64-byte store a record. Kernels.

A line is streamed past the caches, since this core will not read it again; `commit` orders all of
them before the position that other threads see. The caller makes room: it appends no more than
`room` says, and calls `roll` when that is nothing.
"""

import numpy as np

from matchbox.atomics import U, load_acquire, store_release, stream_fence, stream_line
from matchbox.checksum import HIGH_HALF, advance, sum_output, sum_record
from matchbox.constants import CommandType
from matchbox.jit import kernel
from matchbox.wal.state import (
    BASE,
    CAPACITY,
    CHAIN,
    COMMITTED,
    EPOCH,
    FAILED,
    QUEUE,
    READY,
    READY_WORDS,
    SEGMENT,
    SEQUENCE,
    TAKEN,
    USED,
)


@kernel
def room(log):
    """Records that still fit in the mapped segment."""
    return log.cells[CAPACITY] - log.cells[USED]


@kernel
def last_sequence(log):
    return log.cells[SEQUENCE]


@kernel
def place_next(log):
    """Address of the next slot, which is now used."""
    used = log.cells[USED]
    log.cells[USED] = used + U(1)
    return np.int64(log.cells[BASE] + (used << U(6)))


@kernel
def append_command(log, words, at):
    """Append the record at words[at:at + 8] under the next command_sequence, which is returned.

    Its checksum and sequence are made here; what words[at] and words[at + 1] hold in their place
    is left alone.
    """
    sequence = log.cells[SEQUENCE] + U(1)
    crc = advance(log.cells[CHAIN]) ^ sum_record(words, at, sequence, U(0))
    stream_line(
        place_next(log),
        (words[at] & HIGH_HALF) | crc,
        sequence,
        words[at + U(2)],
        words[at + U(3)],
        words[at + U(4)],
        words[at + U(5)],
        words[at + U(6)],
        words[at + U(7)],
    )
    log.cells[CHAIN] = crc
    log.cells[SEQUENCE] = sequence
    return sequence


@kernel
def append_report(log, outbox, at):
    """Append the outbox entry at outbox[at:at + 8]. Its report_sequence must be the next one."""
    crc = advance(log.cells[CHAIN]) ^ sum_output(outbox, at, U(0))
    stream_line(
        place_next(log),
        outbox[at],
        outbox[at + U(1)],
        outbox[at + U(2)],
        outbox[at + U(3)],
        outbox[at + U(4)],
        outbox[at + U(5)],
        (outbox[at + U(6)] & HIGH_HALF) | crc,
        outbox[at + U(7)],
    )
    log.cells[CHAIN] = crc
    log.cells[SEQUENCE] = outbox[at]


@kernel
def commit(log):
    """All that was appended is in the mapped file and survives this process."""
    stream_fence()
    store_release(log.cells, COMMITTED, log.cells[SEQUENCE])


@kernel
def failed(log):
    """Whether no further segment will be ready."""
    return load_acquire(log.cells, FAILED) != U(0)


@kernel(entry=True)
def roll(log):
    """Go on in the next segment, with its link. False if none is ready yet."""
    cells, link = log.cells, log.link
    taken = cells[TAKEN]
    if load_acquire(cells, READY) == taken:
        return False
    at = (taken & U(QUEUE - 1)) * U(READY_WORDS)
    salt = log.ready[at + U(3)]
    for word in range(8):
        link[word] = U(0)
    link[1] = cells[SEQUENCE]
    link[3] = U(CommandType.LINK)
    link[4] = cells[SEGMENT]
    link[5] = cells[EPOCH]
    link[6] = cells[CHAIN]
    crc = sum_record(link, U(0), link[1], salt)
    base = log.ready[at]
    stream_line(np.int64(base), crc, link[1], U(0), link[3], link[4], link[5], link[6], U(0))
    stream_fence()
    cells[BASE] = base
    cells[USED] = U(1)
    cells[CAPACITY] = log.ready[at + U(1)]
    cells[SEGMENT] = log.ready[at + U(2)]
    cells[CHAIN] = crc
    store_release(cells, TAKEN, taken + U(1))
    return True


@kernel
def make_room(log, wanted):
    """Records that fit now, at most `wanted`; 0 while the next segment is not ready."""
    if room(log) == U(0):
        roll(log)
    return min(room(log), wanted)


@kernel(entry=True)
def append_commands(log, words, first, last):
    """Append records [first, last) of `words` as far as there is room. Returns the position
    reached."""
    end = first + make_room(log, last - first)
    for position in range(first, end):
        append_command(log, words, U(position) << U(3))
    commit(log)
    return end


@kernel(entry=True)
def append_reports(log, outbox, first, last):
    """Append outbox entries [first, last) as far as there is room. Returns the position reached."""
    end = first + make_room(log, last - first)
    for entry in range(first, end):
        append_report(log, outbox, U(entry) << U(3))
    commit(log)
    return end
