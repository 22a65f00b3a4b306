"""Opens the socket that reports leave by, and lays out the send buffer. Plain Python.

    sender = open_publisher("239.1.1.1:5001", "MATCHBOX01")
    publish(sender.publisher, outbox, first, last)    # kernels of moldudp64.py, on one thread
    sender.close()

A multicast group is reached through one interface, by default the loopback with a TTL of 0: nothing
leaves this machine until the user says so. A unicast address follows the routing table. The socket
is connected and nonblocking. An MTU of the route that is smaller than the configured one counts, so
no datagram is fragmented.
"""

import ctypes
import os
import socket
from typing import Literal, Self, get_args

from matchbox.address import LOOPBACK_INTERFACE, Address, interface_request, parse
from matchbox.errors import BadInput, Unavailable
from matchbox.publish.state import (
    HEADER_BYTES,
    IP_UDP_BYTES,
    MESSAGE_BYTES,
    MESSAGES_MAX,
    STREAM_BYTES,
    Cell,
    Counter,
    Mode,
    Publisher,
    Setting,
    allocate,
)
from matchbox.publish.transmit import SOL_UDP, UDP_SEGMENT

Offload = Literal["auto", "gso", "mmsg", "none"]

MTU_DEFAULT = 1500
MTU_MAX = 65535
HEARTBEAT_S_DEFAULT = 1.0
HEARTBEAT_S_MAX = 3600
SEND_BUFFER_DEFAULT = 4 << 20
SEND_BUFFER_MAX = 1 << 30
IP_MTU = 14  # Linux; Python's socket module does not name it
SO_SNDBUFFORCE = 32


def reports_per_datagram(mtu: int) -> int:
    """How many reports fit in a datagram that is not fragmented: 29 at 1500."""
    return (mtu - IP_UDP_BYTES - HEADER_BYTES) // MESSAGE_BYTES


def stream_name(text: str) -> bytes:
    """A stream's identity as on the wire: 1 to 10 printable ASCII characters, blanks behind."""
    if not (text.isascii() and text.isprintable() and 1 <= len(text) <= STREAM_BYTES):
        raise BadInput(f"stream {text!r}: expected 1 to {STREAM_BYTES} printable ASCII characters")
    return text.encode().ljust(STREAM_BYTES)


class Sender:
    """An open publisher: the kernels' state, and what only Python needs.

    Attributes:
        publisher: state for the kernels of `moldudp64`; valid until `close`.
        address: where datagrams go.
        mtu: bytes of an IP packet at the most: the configured MTU or the route's.
        send_buffer: bytes the kernel granted the socket.
    """

    def __init__(
        self,
        publisher: Publisher,
        sock: socket.socket,
        address: Address,
        mtu: int,
        send_buffer: int,
    ) -> None:
        self.publisher, self.address, self.mtu, self.send_buffer = (
            publisher,
            address,
            mtu,
            send_buffer,
        )
        self._socket = sock

    @property
    def offload(self) -> str:
        """The mode in use: `gso`, `mmsg` or `none`."""
        return Mode(int(self.publisher.cells[Cell.MODE])).name.lower()

    @property
    def next_sequence(self) -> int:
        return int(self.publisher.cells[Cell.NEXT])

    @property
    def reports_per_datagram(self) -> int:
        return int(self.publisher.settings[Setting.DATAGRAM_REPORTS])

    @property
    def counters(self) -> dict[str, int]:
        """Name to value, in `state.Counter` order; readable while another thread publishes."""
        return {counter.name.lower(): int(self.publisher.counters[counter]) for counter in Counter}

    def close(self) -> None:
        """Close the socket. No kernel may run on the publisher any more."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_publisher(
    address: str,
    stream: str,
    *,
    next_sequence: int = 1,
    interface: str | None = None,
    ttl: int = 0,
    loopback: bool = True,
    mtu: int = MTU_DEFAULT,
    heartbeat_s: float = HEARTBEAT_S_DEFAULT,
    send_buffer: int = SEND_BUFFER_DEFAULT,
    offload: Offload = "auto",
) -> Sender:
    """Open a socket to `address` (`GROUP:PORT`, or `HOST:PORT` for one receiver).

    Args:
        stream: identity of the report stream, up to 10 characters.
        next_sequence: report_sequence of the first report that will be published.
        interface: name or address of the interface that a group is reached through; default lo.
            Not for a unicast address.
        ttl: routers that multicast may pass, and 0 for this machine only.
        loopback: whether subscribers on this machine receive what leaves by an interface.
        mtu: bytes of the largest IP packet.
        heartbeat_s: seconds without a report after which a heartbeat is due.
        send_buffer: bytes to ask for; what was granted is `Sender.send_buffer`.
        offload: `auto` takes the best that this kernel has; a named mode is taken or refused.

    Raises:
        BadInput: a value is not what it should be.
        Unavailable: no such interface, no route, no permission, or an offload this kernel lacks.
    """
    where, name = parse(address), stream_name(stream)
    if where.multicast:
        interface = interface or LOOPBACK_INTERFACE
    elif interface is not None:
        raise BadInput(f"interface {interface!r}: expected none: {where} is unicast and is routed")
    if not 1 <= next_sequence < 1 << 64:
        raise BadInput(f"next_sequence {next_sequence}: expected 1 to 2^64 - 1")
    if not 0 <= ttl <= 255:
        raise BadInput(f"ttl {ttl}: expected 0 to 255")
    if mtu > MTU_MAX or reports_per_datagram(mtu) < 1:
        least = IP_UDP_BYTES + HEADER_BYTES + MESSAGE_BYTES
        raise BadInput(f"mtu {mtu}: expected {least} to {MTU_MAX} bytes")
    if not 0 < heartbeat_s <= HEARTBEAT_S_MAX:
        raise BadInput(f"heartbeat_s {heartbeat_s}: expected above 0 to {HEARTBEAT_S_MAX} seconds")
    if not 1 <= send_buffer <= SEND_BUFFER_MAX:
        raise BadInput(f"send_buffer {send_buffer}: expected 1 to {SEND_BUFFER_MAX} bytes")
    if offload not in get_args(Offload):
        raise BadInput(f"offload {offload!r}: expected one of {', '.join(get_args(Offload))}")
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        connect(sock, where, interface, ttl, loopback)
        mtu = min(mtu, sock.getsockopt(socket.IPPROTO_IP, IP_MTU))
        reports = reports_per_datagram(mtu)
        if reports < 1:
            raise Unavailable(f"{where}: the route's MTU of {mtu} bytes has no room for a report")
        assert reports <= MESSAGES_MAX
        granted = grow_send_buffer(sock, send_buffer)
        mode = choose_mode(sock, offload, HEADER_BYTES + reports * MESSAGE_BYTES)
        publisher = allocate(sock.fileno(), name, next_sequence, reports, heartbeat_s, mode)
    except BaseException:
        sock.close()
        raise
    return Sender(publisher, sock, where, mtu, granted)


def connect(
    sock: socket.socket, where: Address, interface: str | None, ttl: int, loopback: bool
) -> None:
    """Options that decide the route, then connect. Raises Unavailable."""
    sock.setblocking(False)
    if interface is not None:
        request = interface_request(interface)
        try:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, request)
        except OSError as error:
            raise Unavailable(
                f"interface {interface!r}: {error.strerror}: expected a name or an address of one"
            ) from None
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, int(loopback))
    try:
        sock.connect(where)
    except OSError as error:
        raise Unavailable(
            f"{where}: {error.strerror}: expected an address this machine may send to"
        ) from None


def grow_send_buffer(sock: socket.socket, size: int) -> int:
    """Ask for `size` bytes, past the system's limit if permitted. Returns what was granted."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, size)
    except PermissionError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
    return (
        sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) // 2
    )  # the kernel doubles it for itself


def choose_mode(sock: socket.socket, offload: Offload, segment: int) -> Mode:
    """Probe what the kernel takes, best first. A mode asked for by name is all or nothing.

    A device may still refuse to segment; the first send finds out (`give_up_segmentation`).
    """
    if offload in ("auto", "gso"):
        try:
            sock.setsockopt(SOL_UDP, UDP_SEGMENT, segment)
            return Mode.GSO
        except OSError as error:
            if offload == "gso":
                raise Unavailable(
                    f"offload 'gso': UDP_SEGMENT: {error.strerror}: use 'auto'"
                ) from None
    if offload in ("auto", "mmsg"):
        library = ctypes.CDLL(None, use_errno=True)
        if library.sendmmsg(sock.fileno(), None, 0, 0) == 0:
            return Mode.MMSG
        if offload == "mmsg":
            reason = os.strerror(ctypes.get_errno())
            raise Unavailable(f"offload 'mmsg': sendmmsg: {reason}: use 'auto'")
    return Mode.NONE
