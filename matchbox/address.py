"""Where datagrams go: `GROUP:PORT` and an interface, as the user writes them. Plain Python.

IPv4 for now. A group is 224.0.0.0 to 239.255.255.255; any other address is one receiver.
"""

import socket
import struct
from ipaddress import AddressValueError, IPv4Address
from typing import NamedTuple

from matchbox.errors import BadInput, Unavailable

EXPECTED = "expected GROUP:PORT, such as 239.1.1.1:5001, or HOST:PORT with an IPv4 address"
LOOPBACK_INTERFACE = "lo"


class Address(NamedTuple):
    host: str  # dotted IPv4
    port: int

    @property
    def multicast(self) -> bool:
        return IPv4Address(self.host).is_multicast

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def parse(text: str) -> Address:
    """An address one can send to. Raises BadInput with the offending text and what was expected."""
    host, colon, port = text.rpartition(":")
    if not colon:
        raise BadInput(f"{text!r}: no port: {EXPECTED}")
    if ":" in host:
        raise BadInput(f"{text!r}: IPv6 is not supported: {EXPECTED}")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65535):
        raise BadInput(f"{text!r}: port {port!r} is not 1 to 65535: {EXPECTED}")
    if host == "localhost":
        host = "127.0.0.1"
    try:
        address = IPv4Address(host)
    except AddressValueError:
        raise BadInput(f"{text!r}: {host!r} is not an IPv4 address: {EXPECTED}") from None
    if address.is_unspecified or (address.is_reserved and not address.is_multicast):
        raise BadInput(f"{text!r}: nobody can be reached at {host}: {EXPECTED}")
    return Address(host, int(port))


def interface_request(interface: str, group: str = "0.0.0.0") -> bytes:
    """struct ip_mreqn: a group on an interface given by name (`eth0`) or by one of its addresses.

    Raises Unavailable if this machine has no interface of that name.
    """
    try:
        return struct.pack("@4s4si", socket.inet_aton(group), IPv4Address(interface).packed, 0)
    except AddressValueError:
        pass
    try:
        index = socket.if_nametoindex(interface)
    except OSError:
        names = ", ".join(name for _, name in socket.if_nameindex())
        raise Unavailable(
            f"interface {interface!r}: not on this machine: expected {names}, or an address of one"
        ) from None
    return struct.pack("@4s4si", socket.inet_aton(group), bytes(4), index)
