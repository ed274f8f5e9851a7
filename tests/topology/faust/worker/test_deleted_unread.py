"""Messages that retention deletes before they are read are told of, and hold nothing up."""

import signal

import pytest
from confluent_kafka import OFFSET_END, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.topology.faust.inspection.test_inspection import event
from tests.topology.faust.worker_process import Worker

pytestmark = pytest.mark.integration

APP = """
import os
from topology import Emit, Inspector, Topology, redeliver, skip
from topology.faust import compile

prefix = os.environ["PREFIX"]
topology = Topology(prefix)
source = topology.source(
    prefix + ".in", inspector=Inspector(stream="id", sequence="seq", kind="kind"), name="in",
    partitions=1,
)

@topology.view("board", of=source, gap=skip(after=0.3))
def board(event):
    yield Emit(prefix + ".out", event.stream, event.content)

@topology.view("far", of=source, buffer=2, full=redeliver(delay=0.2))
def far(event):
    yield Emit(prefix + ".far-out", event.stream, event.content)

app = compile(topology, group=prefix, session_timeout=60)
"""


def delete_all(worker: Worker, topic: str, partition: int, before: int) -> None:
    """As retention would."""
    admin = AdminClient({"bootstrap.servers": worker.broker})
    for found in admin.delete_records([TopicPartition(topic, partition, before)]).values():
        found.result()


def said(worker: Worker) -> str:
    return worker.log_file.read_text()


def test_a_partition_whose_messages_were_all_deleted_holds_up_no_gap(worker: Worker) -> None:
    """The group has no offset there, and nothing comes that would give it one."""
    source = f"{worker.prefix}.in"
    producer = Producer({"bootstrap.servers": worker.broker})
    for _ in range(5):
        producer.produce(source, b"old", partition=1)
    assert producer.flush(60) == 0
    delete_all(worker, source, 1, 5)
    worker.start()
    for number in (1, 3):
        producer.produce(source, event("a", number)[1], partition=0)
    assert producer.flush(60) == 0
    assert [record.value() for record in worker.wait("out", 2)] == [
        event("a", 1)[1],
        event("a", 3)[1],
    ]
    assert worker.end(signal.SIGTERM) == 0


def test_what_was_deleted_while_a_view_was_halted_is_told_of(worker: Worker) -> None:
    worker.start()
    worker.send(event("a", 1))
    worker.wait("out", 1)
    assert worker.run("halt", "board", "--why", "a test").returncode == 0
    worker.send(*(event("b", number) for number in range(1, 6)))
    by_stream = f"{worker.prefix}.in.by-stream"
    worker.wait("in.by-stream", 6)
    last = worker.records("in.by-stream")[-1]
    delete_all(worker, by_stream, 0, last.offset() or 0)
    assert worker.run("resume", "board", "--why", "a test").returncode == 0
    worker.wait_until(lambda: "were deleted by retention before they were read" in said(worker))
    assert worker.end(signal.SIGTERM) == 0


@pytest.mark.parametrize("anew", [False, True], ids=["deleted", "made anew"])
def test_events_whose_records_for_redelivery_are_gone_are_told_of_and_taken_when_sent_again(
    worker: Worker, anew: bool
) -> None:
    away = f"{worker.prefix}.far.redeliver"
    worker.start()
    worker.send(event("a", 2), event("a", 9))
    worker.wait_until(lambda: worker.count("far.redeliver") > 2)
    assert worker.end(signal.SIGTERM) == 0
    if anew:
        admin = AdminClient({"bootstrap.servers": worker.broker})
        admin.delete_topics([away])[away].result()
        worker.wait_until(lambda: away not in admin.list_topics(timeout=60).topics)
    else:
        delete_all(worker, away, 0, OFFSET_END)
    worker.start()
    worker.wait_until(lambda: f"1 event of {away}/0 will not come again" in said(worker))
    worker.send(event("a", 10))
    worker.wait_until(lambda: worker.count("far.redeliver") > 0)
    worker.send(*(event("a", number) for number in (1, *range(3, 10))))
    worker.wait("far-out", 10)
    assert worker.end(signal.SIGTERM) == 0
