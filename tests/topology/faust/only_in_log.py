"""What retention took of a topic, and a replay log still has."""

from collections.abc import Iterable
from pathlib import Path

from confluent_kafka import Message, TopicPartition
from confluent_kafka.admin import AdminClient

from sequitur.replay.replay_file import read_replay_file
from stores.replay import CapturedMessage


def capture(file: Path, records: Iterable[Message]) -> None:
    """Keep records in a new log, as capture does, and write its file."""
    file.write_text(f'[replay]\ndatabase = "sqlite:///{file.with_suffix(".db")}"\n')
    found = [
        CapturedMessage(
            *(each.topic() or "", each.partition() or 0, each.offset() or 0, each.value()),
            *(each.timestamp()[1], each.key()),
        )
        for each in records
    ]
    log = read_replay_file(file).log()
    log.append(found[0].topic, found, {each.partition: each.offset + 1 for each in found})
    log.engine.dispose()


def delete(broker: str, records: Iterable[Message]) -> None:
    """Let retention take records of a topic, but the last one of each partition."""
    last = {(each.topic() or "", each.partition() or 0): each.offset() or 0 for each in records}
    admin = AdminClient({"bootstrap.servers": broker})
    before = [TopicPartition(*where, offset) for where, offset in last.items()]
    for done in admin.delete_records(before).values():
        done.result(60)
