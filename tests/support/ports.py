"""Ports for servers that a test starts later."""

import random
import socket
from contextlib import suppress
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST = 15_000


def free_port() -> int:
    """Return a free port of the loopback, below those that outgoing connections get.

    Another process that connects to anything could take one of those before the server does.
    """
    end = int(_RANGE.read_text().split()[0])
    while True:
        port = random.randrange(_FIRST, end)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
