"""Reports as MoldUDP64 1.0 datagrams, from the outbox to the wire. Kernels.

    datagram = header | message ... message
    offset  size  field
         0    10  stream                    (MoldUDP64: session)
        10     8  sequence, big-endian      of the first message; heartbeat and end: of the next one
        18     2  count, big-endian         messages; 0: heartbeat; 0xFFFF: end of session
        20    50  each message: u16 big-endian length 48, then the public report

Natural batching: `publish` sends what there is at once, whether one report or thousands, and never
waits for more. A burst is framed as datagrams that lie end to end in the send buffer, every one
full but the last, and leaves in one of three ways (`state.Mode`): as one segmented send
(UDP_SEGMENT), one sendmmsg, or a send each. What is on the wire is the same. `state.py` lays
streams and message lengths into the buffer once, at the offsets that this layout fixes; framing
writes only what changes.

Nothing here blocks (`transmit.py`) or reads a clock. A heartbeat tells subscribers of a loss at the
very end.

Invariant: report sequences are dense. `publish` refuses entries that do not carry on from the last
one.
"""

from matchbox.atomics import U, store_u16_big, store_u64, store_u64_big
from matchbox.constants import Kind
from matchbox.jit import kernel
from matchbox.publish.state import (
    END_OF_SESSION,
    HEADER_BYTES,
    HEARTBEAT,
    MESSAGE_BYTES,
    Cell,
    Counter,
    Fault,
    Publisher,
    Setting,
)
from matchbox.publish.transmit import transmit
from matchbox.schema import MOLD_LAYOUT, REPORT_LAYOUT

__all__ = ["Publisher", "end_of_stream", "heartbeat", "publish"]

SEQUENCE_OFFSET = MOLD_LAYOUT.offsets()["sequence"]
COUNT_OFFSET = MOLD_LAYOUT.offsets()["count"]
END_REPEATS = 3

# Word 5 of a report: instrument, kind, side, reason, flags. Of a reject it shows kind and flags.
WORD_5 = REPORT_LAYOUT.offsets()["instrument"]
KIND_SHIFT = U(8 * (REPORT_LAYOUT.offsets()["kind"] - WORD_5))
FLAGS_SHIFT = U(8 * (REPORT_LAYOUT.offsets()["flags"] - WORD_5))
BYTE = U(0xFF)
REJECT_SHOWS = (BYTE << KIND_SHIFT) | (BYTE << FLAGS_SHIFT)
assert WORD_5 == 5 * 8


@kernel
def public_masks(word5):
    """What everybody may see of a report: masks for reference, price and quantity; contra; word 5.

    - accepted: contra, the client's order_id, is zero.
    - rejected: a sequence was used, and whether the command ends there. `report_sequence`, `kind`
      and `flags` stay; reference, contra, price, quantity, instrument, side and reason are zero.
    - all others are shown whole.
    """
    kind = (word5 >> KIND_SHIFT) & BYTE
    unless_rejected = U(kind == U(Kind.REJECTED)) - U(1)  # all ones, or zero
    unless_accepted = U(kind == U(Kind.ACCEPTED)) - U(1)
    return unless_rejected, unless_rejected & unless_accepted, unless_rejected | REJECT_SHOWS


@kernel
def put_header(place, sequence, count):
    store_u64_big(place + SEQUENCE_OFFSET, sequence)
    store_u16_big(place + COUNT_OFFSET, count)


@kernel
def frame(publisher, outbox, first, last):
    """Lay outbox entries [first, last), at most a burst, into the buffer.

    Returns the number of datagrams, their bytes in all, and nonzero if sequences were not dense.
    """
    sequence = publisher.cells[Cell.NEXT]
    full = U(publisher.settings[Setting.DATAGRAM_REPORTS])
    start = publisher.settings[Setting.BUFFER]
    place = start
    datagrams, broken = U(0), U(0)
    while first < last:
        count = min(full, last - first)
        put_header(place, sequence, count)
        place += HEADER_BYTES
        end = first + count
        while first < end:
            at = first << U(3)
            word5 = outbox[at + U(5)]
            shown, contra_shown, word5_shown = public_masks(word5)
            broken |= outbox[at] ^ sequence
            store_u64(place + 2, sequence)
            store_u64(place + 10, outbox[at + U(1)] & shown)
            store_u64(place + 18, outbox[at + U(2)] & contra_shown)
            store_u64(place + 26, outbox[at + U(3)] & shown)
            store_u64(place + 34, outbox[at + U(4)] & shown)
            store_u64(place + 42, word5 & word5_shown)
            place += MESSAGE_BYTES
            sequence += U(1)
            first += U(1)
        datagrams += U(1)
    return datagrams, place - start, broken


@kernel
def publish(publisher, outbox, first, last):
    """Send entries [first, last) of the outbox, u64[entries * 8], to everybody, now.

    Returns a `Fault` code, u64.
    """
    settings = publisher.settings
    burst = U(settings[Setting.DATAGRAM_REPORTS]) * U(settings[Setting.BURST_DATAGRAMS])
    while first < last:
        end = min(last, first + burst)
        datagrams, size, broken = frame(publisher, outbox, first, end)
        if broken != U(0):
            return U(Fault.NOT_DENSE)
        publisher.cells[Cell.NEXT] += end - first
        publisher.counters[Counter.REPORTS] += end - first
        transmit(publisher, datagrams, size)
        first = end
    return U(Fault.NONE)


@kernel
def send_header(publisher, count):
    put_header(publisher.settings[Setting.BUFFER], publisher.cells[Cell.NEXT], count)
    transmit(publisher, U(1), HEADER_BYTES)


@kernel
def heartbeat(publisher, now_ns):
    """Send a heartbeat if nothing was sent for the configured time. Call it often; steady clock.

    `publish` reads no clock: quiet time counts from the first call that finds no further report, so
    a heartbeat is late by at most the time between two calls. The first call after opening sends
    one at once.
    """
    cells, now = publisher.cells, U(now_ns)
    if cells[Cell.QUIET_SEQUENCE] != cells[Cell.NEXT]:
        cells[Cell.QUIET_SEQUENCE] = cells[Cell.NEXT]
        cells[Cell.QUIET_SINCE_NS] = now
    elif now - cells[Cell.QUIET_SINCE_NS] >= U(publisher.settings[Setting.HEARTBEAT_NS]):
        cells[Cell.QUIET_SINCE_NS] = now
        publisher.counters[Counter.HEARTBEATS] += U(1)
        send_header(publisher, HEARTBEAT)


@kernel
def end_of_stream(publisher):
    """Tell subscribers that no report follows: the orderly stop. Three times: one may be lost."""
    for _ in range(END_REPEATS):
        send_header(publisher, END_OF_SESSION)
