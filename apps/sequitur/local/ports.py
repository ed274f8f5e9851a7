"""Ports of the loopback interface."""

import random
import socket

from sequitur.local.home import LocalError

HOST = "127.0.0.1"


def free_port() -> int:
    """Return a free port below those that systems give to outgoing connections.

    Of those, a client that tries to reach a stopped broker could take the broker's own.
    """
    for port in random.sample(range(20_000, 30_000), 100):
        if reason_not_to_listen(port) is None:
            return port
    raise LocalError("Kafka broker", f"no free port at {HOST}", "name one that may be used")


def reason_not_to_listen(port: int) -> str | None:
    """Return why nothing can listen at the port, or None if it is free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            return str(error.strerror)
    return None
