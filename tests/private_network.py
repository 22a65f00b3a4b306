"""A network of one's own: default ports are free in it, and nothing leaves it.

Linux only, root or user namespaces; without either the process stays where it is.
"""

import ctypes
import fcntl
import os
import socket
import struct

CLONE_NEWNET, CLONE_NEWUSER = 0x40000000, 0x10000000
SIOCGIFFLAGS, SIOCSIFFLAGS = 0x8913, 0x8914
IFF_UP, IFF_MULTICAST = 0x1, 0x1000


def enter() -> bool:
    """Move this process and its children to a network that has a loopback interface only."""
    library = ctypes.CDLL(None, use_errno=True)
    flags = CLONE_NEWNET | (0 if os.geteuid() == 0 else CLONE_NEWUSER)
    if library.unshare(flags) != 0:
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = fcntl.ioctl(sock, SIOCGIFFLAGS, struct.pack("16sh14x", b"lo", 0))
        (found,) = struct.unpack("16xh14x", request)
        request = struct.pack("16sh14x", b"lo", found | IFF_UP | IFF_MULTICAST)
        fcntl.ioctl(sock, SIOCSIFFLAGS, request)
    return True
