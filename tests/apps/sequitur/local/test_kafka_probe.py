import socket
from threading import Thread

import pytest

from sequitur.local.kafka_probe import answers


def test_a_closed_port_does_not_answer() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        assert not answers("127.0.0.1", unused.getsockname()[1])


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\0\0\0\x04\0\0\0\x07",
        b"\0\0\0\x08\0\0\0\x07\0\0\0\0",  # a broker that knows of no broker yet
    ],
)
def test_what_is_not_a_working_broker_does_not_answer(reply: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(reply)

        thread = Thread(target=serve)
        thread.start()
        assert not answers("127.0.0.1", server.getsockname()[1])
        thread.join()
