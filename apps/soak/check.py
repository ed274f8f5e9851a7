"""Check a soak's outputs, changelogs and tables against what its input comes to."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import orjson
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from soak import VIEWS
from soak.worked import WORKED
from soak.workload import Workload
from stores.view_state.by_url import open_store
from stores.view_state.table import Store, TableError
from topology.engine.state.rows import COUNTS, HOLES, decode_holes, decode_progress
from topology.model.counts import Counts, decode_counts
from topology.sequencer.progress import last_of

SILENCE = 30.0
"""Seconds without a record after which a topic is taken for unreadable."""


def read(broker: str, topic: str) -> Iterator[Message]:
    """All committed records of a topic, partition by partition.

    Raises KeyError where there is no such topic, KafkaException, and TimeoutError.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": broker,
            "group.id": "soak-check",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            # A partition's end is told by a fetch that finds nothing, for which the broker waits.
            "fetch.wait.max.ms": 5,
        }
    )
    try:
        for partition in sorted(consumer.list_topics(topic, timeout=60).topics[topic].partitions):
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
            while True:
                if (message := consumer.poll(SILENCE)) is None:
                    raise TimeoutError(f"topic {topic}: nothing to read for {SILENCE:.0f} s")
                if (error := message.error()) is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    break
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()


def check(
    broker: str,
    prefix: str,
    work: Workload,
    datadir: Path | None = None,
    *,
    store: str = "rocksdb",
    once: bool = True,
    compacted: bool = False,
    worked: bool = False,
) -> list[str]:
    """What is wrong, in words; an empty list if all is as it should be.

    once: whether outputs may not repeat; without it a repeat is right if it says what was said
    before. datadir: of a stopped worker, to compare its tables, which are in `store`. compacted:
    whether the changelogs' rows of the time a table stands at may be gone, so that only tables that
    stand at the changelog's end are compared. worked: whether there are views with workers.
    """
    wrong = check_copies(broker, prefix, work, once)
    views = WORKED if worked else ()
    for view in ("ledger", "again", *views):
        wrong += check_totals(broker, prefix, view, work, once)
    for view in views:
        name = f"{view}.arrivals"
        changelog = list(read(broker, f"{prefix}-{name}-changelog"))
        wrong += check_work(name, fold(changelog), work)
        if datadir is not None:
            wrong += check_tables(name, changelog, open_store(store, prefix, datadir), compacted)
    for view in (*VIEWS, *views):
        changelog = list(read(broker, f"{prefix}-{view}-changelog"))
        wrong += check_rows(view, fold(changelog), work, once)
        if datadir is not None:
            wrong += check_tables(view, changelog, open_store(store, prefix, datadir), compacted)
    return wrong


def check_totals(broker: str, prefix: str, view: str, work: Workload, once: bool) -> list[str]:
    """A view's output of totals: each stream 1, 2, 3 … once, and the right total at its end."""
    bodies = (orjson.loads(message.value() or b"") for message in read(broker, f"{prefix}.{view}"))
    said = ((b["stream"], b["sequence"], b["changes"][0]["values"]["total"]) for b in bodies)
    return _sequence_errors(view, said, dict(work.totals), once)


def check_copies(broker: str, prefix: str, work: Workload, once: bool) -> list[str]:
    """The copies: each stream 1, 2, 3 … once, to its end."""
    bodies = (orjson.loads(message.value() or b"") for message in read(broker, f"{prefix}.copied"))
    said = ((b["stream"], b["seq"], None) for b in bodies)
    return _sequence_errors(
        "copies", said, {s: (e, None) for s, (e, _) in work.totals.items()}, once
    )


def _sequence_errors(
    name: str,
    said: Iterator[tuple[str, int, int | None]],
    ends: Mapping[str, tuple[int, int | None]],
    once: bool,
) -> list[str]:
    wrong: list[str] = []
    heard: dict[str, list[int | None]] = defaultdict(list)
    for stream, sequence, total in said:
        before = heard[stream]
        if sequence == len(before) + 1:
            before.append(total)
        elif once or not 0 < sequence <= len(before) or before[sequence - 1] != total:
            wrong.append(f"{name}: {stream} has {sequence} ({total}) after {len(before)}")
    for stream, (last, total) in ends.items():
        found = heard[stream]
        if len(found) != last or found[-1] != total:
            wrong.append(f"{name}: {stream} ends at {len(found)}, not at {last} with {total}")
    return wrong


def fold(changelog: Iterable[Message]) -> dict[tuple[int, bytes], bytes]:
    """(partition, key) → value, as a changelog's records make it."""
    rows: dict[tuple[int, bytes], bytes] = {}
    for message in changelog:
        at = (message.partition() or 0, message.key() or b"")
        if message.value() is None:
            rows.pop(at, None)
        else:
            rows[at] = message.value() or b""
    return rows


def check_rows(
    view: str, rows: dict[tuple[int, bytes], bytes], work: Workload, once: bool
) -> list[str]:
    """A view's state: every stream at its end, nothing waiting, all that came accounted for."""
    wrong: list[str] = []
    streams: dict[str, int] = {}
    sums = Counts()
    for (_, key), value in rows.items():
        if key == COUNTS:
            sums = sums + decode_counts(value)
        elif key[:1] == b"b":
            wrong.append(f"{view}: {key!r} still waits")
        elif key[:1] == b"p":
            progress, state = decode_progress(value)
            stream = key[1:].decode()
            streams[stream] = last_of(progress)
            if state is not None and orjson.loads(state)["total"] != work.totals[stream][1]:
                wrong.append(f"{view}: the state of {stream} is {state!r}")
    expected = {stream: last for stream, (last, _) in work.totals.items()}
    if streams != expected:
        wrong.append(f"{view}: progress differs in {len(streams.items() ^ expected.items())} rows")
    distinct = sum(expected.values())
    if (once and sums.received != len(work.messages)) or sums.accounted != sums.received:
        wrong.append(f"{view}: {len(work.messages)} messages came, the counts say {sums}")
    if sums.processed != distinct:
        wrong.append(f"{view}: {distinct} events were to process, the counts say {sums}")
    return wrong


def check_work(name: str, rows: dict[tuple[int, bytes], bytes], work: Workload) -> list[str]:
    """The second stage of a view: every state at its end, nothing parked or done ahead."""
    wrong: list[str] = []
    states: dict[str, int] = {}
    for (_, key), value in rows.items():
        if key[:1] == b"b":
            wrong.append(f"{name}: {key!r} is still parked")
        elif key == HOLES and list(decode_holes(value)[1]):
            wrong.append(f"{name}: done ahead of what is open: {decode_holes(value)}")
        elif key[:1] == b"p":
            state = decode_progress(value)[1]
            states[key[1:].decode()] = orjson.loads(state or b"{}").get("total")
    expected = {stream: total for stream, (_, total) in work.totals.items()}
    if states != expected:
        wrong.append(f"{name}: states differ in {len(states.items() ^ expected.items())} rows")
    return wrong


def check_tables(view: str, changelog: list[Message], store: Store, compacted: bool) -> list[str]:
    """Each table holds exactly what its changelog holds up to its offset, or cannot be read."""
    wrong: list[str] = []
    for partition in range(4):
        table = store.table(view, partition)
        try:
            held, end = dict(table.scan(b"a", b"\xff" * 64)), table.offset or 0
        except TableError:
            # Damage that nobody has come across yet; who does rebuilds the table.
            continue
        finally:
            table.close()
        records = [m for m in changelog if m.partition() == partition]
        if compacted and any((m.offset() or 0) >= end for m in records):
            continue
        logged = fold(m for m in records if (m.offset() or 0) < end)
        expected = {key: value for (_, key), value in logged.items()}
        if held != expected:
            count = len(held.items() ^ expected.items())
            wrong.append(f"{view}: table {partition} differs from its changelog in {count} rows")
    store.close()
    return wrong
