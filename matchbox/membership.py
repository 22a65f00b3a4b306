"""Opens the socket that a subscriber receives by, and joins its group. Plain Python."""

import errno
import socket

from matchbox.address import LOOPBACK_INTERFACE, interface_request, parse
from matchbox.errors import BadInput, Unavailable

# Linux options that Python's socket module does not name.
SOL_UDP, UDP_GRO = 17, 104
SO_RCVBUFFORCE = 33
IP_MULTICAST_ALL = 49


def open_socket(address: str, interface: str | None) -> socket.socket:
    """A nonblocking socket bound to the group or address. Raises Unavailable, BadInput."""
    where = parse(address)
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        if where.multicast:
            interface = interface or LOOPBACK_INTERFACE
            request = interface_request(interface, where.host)
            # Several subscribers share a group; each hears this one only, not all at its port.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setsockopt(socket.IPPROTO_IP, IP_MULTICAST_ALL, 0)
            sock.bind(where)
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
        elif interface is not None:
            raise BadInput(
                f"interface {interface!r}: expected none: {where} is unicast and names it"
            )
        else:
            sock.bind(where)
    except OSError as error:
        sock.close()
        raise Unavailable(f"{where}: {advice(error, interface)}") from None
    except BaseException:
        sock.close()
        raise
    return sock


def advice(error: OSError, interface: str | None) -> str:
    """Why an address cannot be had, and what was expected."""
    if interface is not None and error.errno in (errno.ENODEV, errno.EADDRNOTAVAIL, errno.EINVAL):
        return (
            f"cannot join on {interface!r}: {error.strerror}: expected an interface of this machine"
        )
    if error.errno == errno.EADDRINUSE:
        return "the port is in use: expected one receiver at a unicast address"
    if error.errno == errno.EADDRNOTAVAIL:
        return "not an address of this machine: expected one, or a multicast group"
    return f"{error.strerror}: expected an address this process may receive at"


def grow_receive_buffer(sock: socket.socket, size: int) -> int:
    """Ask for `size` bytes, past the system's limit if permitted. Returns what was granted."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, size)
    except PermissionError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
    return (
        sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2
    )  # the kernel doubles it for itself


def ask_for_trains(sock: socket.socket) -> bool:
    """Whether the kernel hands over trains of datagrams as they came."""
    try:
        sock.setsockopt(SOL_UDP, UDP_GRO, 1)
    except OSError:
        return False
    return True
