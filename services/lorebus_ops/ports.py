"""Free ports for servers that must be told theirs before they start.

The rule that must not break: a port is below 32768, where no outgoing connection takes one by chance
(PERFORMANCE.md, what that taught, 10). Between the choice and the start somebody else may still take it: whoever
starts a server tries again with another port when the server ends at once.
"""

import random
import socket
from contextlib import ExitStack
from typing import Final

LOOPBACK: Final = "127.0.0.1"
LOWEST: Final = 10_000
"""Below it live the ports that people know by heart."""

HIGHEST: Final = 32_767


def free_ports(count: int) -> tuple[int, ...]:
    """`count` different ports of the loopback address that nobody listens on, each in [10 000, 32 767].

    Raises:
        OSError: there are not that many.
    """
    found: list[int] = []
    with ExitStack() as held:
        # A random order keeps two stacks that start together apart; holding each port keeps the answers different.
        for port in random.sample(range(LOWEST, HIGHEST + 1), HIGHEST + 1 - LOWEST):
            if len(found) == count:
                break
            probe = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            found.append(port)
    if len(found) < count:
        raise OSError(f"no {count} free ports on {LOOPBACK} between {LOWEST} and {HIGHEST}")
    return tuple(found)


def free_port() -> int:
    """One port, as `free_ports` finds them."""
    return free_ports(1)[0]


def accepts_connections(port: int, *, timeout_seconds: float = 1.0) -> bool:
    """True when a server answers at this port of the loopback address."""
    try:
        socket.create_connection((LOOPBACK, port), timeout_seconds).close()
    except OSError:
        return False
    return True
