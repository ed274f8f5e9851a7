"""A worker that starts before its broker does waits for it, and ends when it is told to."""

import signal
import socket
import threading
import time
from contextlib import suppress

import orjson
import pytest
from aiokafka.errors import KafkaConnectionError, TopicAuthorizationFailedError

from sequitur.local.ports import HOST
from tests.topology.faust.worker_process import Worker
from topology.faust.worker import retry_until_available as patience

PARTITIONS = 1
APP = """
import os
from topology import Inspector, Topology, Upsert
from topology.faust import compile

prefix = os.environ["PREFIX"]
topology = Topology(prefix)
source = topology.source(
    prefix + ".in", inspector=Inspector("id", "n"), keyed=True,
    partitions=int(os.environ.get("WANTED", "1")),
)

@topology.view("board", of=source)
def board(event):
    yield Upsert("board", key={"id": event.stream}, values={"n": event.sequence})

app = compile(topology, group=prefix, session_timeout=60)
"""


async def test_it_tries_again_until_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "FIRST", 0.001)
    left: list[Exception] = [KafkaConnectionError("nobody"), OSError("no route")]

    async def begin() -> None:
        if left:
            raise left.pop()

    await patience.retry_until_available(begin, "here:1")
    assert not left


async def test_it_does_not_try_again_what_the_broker_refuses() -> None:
    async def begin() -> None:
        raise TopicAuthorizationFailedError("not you")

    with pytest.raises(TopicAuthorizationFailedError):
        await patience.retry_until_available(begin, "here:1")


class Door:
    """A port of its own that leads to the broker once it is opened."""

    def __init__(self, behind: str) -> None:
        host, _, number = behind.partition(":")
        self._behind = host, int(number)
        self._socket = socket.socket()
        self._socket.bind((HOST, 0))
        self.address = f"{HOST}:{self._socket.getsockname()[1]}"

    def open(self) -> None:
        self._socket.listen(100)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                there = socket.create_connection(self._behind)
                for one, other in ((client, there), (there, client)):
                    threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    @staticmethod
    def _pass(one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(1 << 16):
                other.sendall(data)
        for each in (one, other):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def close(self) -> None:
        self._socket.close()


def waits(worker: Worker) -> bool:
    """Whether the worker says in time that it waits; the log begins anew."""
    log = worker.folder / "log"
    until = time.monotonic() + 150
    while "no broker answers at" not in log.read_text():
        assert worker.process is not None
        if worker.process.poll() is not None or time.monotonic() > until:
            return False
        time.sleep(0.2)
    log.unlink()
    return True


@pytest.mark.integration
def test_a_worker_waits_for_its_broker_or_for_sigterm(worker: Worker) -> None:
    door = Door(worker.broker)
    try:
        worker.start(SEQUITUR_BROKER=door.address)
        assert waits(worker)
        assert worker.end(signal.SIGTERM) == 0

        worker.start(SEQUITUR_BROKER=door.address)
        assert waits(worker)
        worker.send((b"a", orjson.dumps({"id": "a", "n": 1})))
        door.open()
        worker.wait("board", 1)
        assert worker.end(signal.SIGTERM) == 0
    finally:
        door.close()


@pytest.mark.integration
def test_a_worker_that_cannot_work_ends_with_status_2_and_says_why(worker: Worker) -> None:
    worker.start(WANTED="2")
    assert worker.process is not None
    assert worker.process.wait(150) == 2
    assert "has 1 partition, but the topology says 2; set" in (worker.folder / "log").read_text()


def test_an_audit_without_a_broker_is_one_line_and_no_violation(
    worker: Worker, nobody: str
) -> None:
    told = worker.run("audit", SEQUITUR_BROKER=f"kafka://{nobody}")
    assert told.returncode == 2, told.stdout + told.stderr
    assert told.stderr == f"no broker answers at {nobody}; start it, or set SEQUITUR_BROKER\n"
