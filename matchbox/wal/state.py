"""A log as its appender sees it: where the next record goes. Plain Python.

There are two, of one kind: commands and reports. The appender (the matching thread) is the only
writer; the preparer (`prepare.py`) makes segments ready before they are needed and unmaps those
left behind.

    cells, u64[64]          written by   read by
      0  BASE               appender     -           address of the first slot of the mapped
      segment; 0: none yet
      1  USED               appender     -           slots used in it, link included
      2  CAPACITY           appender     -           slots in it
      3  CHAIN              appender     -           checksum of the last record
      4  SEQUENCE           appender     -           of the last record
      5  SEGMENT            appender     -           number of the mapped segment
      6  EPOCH              at start     -
     16  COMMITTED          appender     anyone      sequence of the last record that is in the
     mapped file
     17  TAKEN              appender     preparer    segments taken so far
     32  READY              preparer     appender    segments made ready so far
     33  FAILED             preparer     anyone      errno when no further segment can be made,
     else 0
    ready, u64[QUEUE * 4]   preparer     appender    segment n, at (n % QUEUE) * 4: address, slots,
    number, salt

Invariants: TAKEN <= READY <= TAKEN + QUEUE; a segment is mapped until TAKEN has passed it.
"""

from typing import NamedTuple

import numpy as np

from matchbox.memory import huge

BASE, USED, CAPACITY, CHAIN, SEQUENCE, SEGMENT, EPOCH = (np.uint64(i) for i in range(7))
COMMITTED, TAKEN, READY, FAILED = (np.uint64(i) for i in (16, 17, 32, 33))
CELL_WORDS = 64
QUEUE = 64
READY_WORDS = 4


class Log(NamedTuple):
    cells: np.ndarray  # u64[64]
    ready: np.ndarray  # u64[QUEUE * 4]
    link: np.ndarray  # u64[8]: the link record being made


def allocate(sequence: int, chain: int, segment: int, epoch: int) -> Log:
    """A log that goes on after `sequence`, whose checksum is `chain` and whose last segment is
    number `segment`."""
    log = Log(huge(CELL_WORDS, np.uint64), huge(QUEUE * READY_WORDS, np.uint64), huge(8, np.uint64))
    for cell, value in (
        (SEQUENCE, sequence),
        (COMMITTED, sequence),
        (CHAIN, chain),
        (SEGMENT, segment),
        (EPOCH, epoch),
    ):
        log.cells[int(cell)] = value
    return log
