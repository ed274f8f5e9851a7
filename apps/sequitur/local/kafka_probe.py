"""Ask whether a Kafka broker answers, with nothing but a socket."""

import socket
import struct

_METADATA, _VERSION = 3, 1


def answers(host: str, port: int, timeout: float = 2.0) -> bool:
    """Whether a broker at host:port knows itself as part of a cluster, so that it takes work.

    timeout: seconds for each step of the conversation.
    """
    try:
        with socket.create_connection((host, port), timeout) as connection:
            # Header: api, version, correlation id, no client id; body: no topics.
            request = struct.pack(">hhihi", _METADATA, _VERSION, 7, -1, 0)
            connection.sendall(struct.pack(">i", len(request)) + request)
            size = struct.unpack(">i", _read(connection, 4))[0]
            correlation, brokers = struct.unpack(">ii", _read(connection, size)[:8])
    except (OSError, struct.error):
        return False
    return bool(correlation == 7 and brokers > 0)


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError("the other side closed the connection")
        data += part
    return data
