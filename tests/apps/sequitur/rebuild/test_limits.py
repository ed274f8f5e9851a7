"""How far the live views are: of a changelog's rows the last ones that count, read once."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer
from yarl import URL

from sequitur.rebuild.limits import Limits
from tests.conftest import BrokerAddress
from topology.engine.state.rows import buffer_key, encode_progress, progress_key
from topology.faust.worker.progress_rows import progress_rows
from topology.faust.worker.snapshot import Spans

pytestmark = pytest.mark.integration


class Stopped(Exception):
    """Somebody wants it to end."""


def app(broker: str) -> Any:
    conf = SimpleNamespace(
        broker=[URL(f"kafka://{broker}")],
        broker_client_id="test",
        broker_credentials=None,
        ssl_context=None,
    )
    return SimpleNamespace(conf=conf)


@pytest.fixture
def changelog(broker: BrokerAddress, topic: Callable[..., str]) -> tuple[str, Spans]:
    """A topic of two partitions, and the spans that count."""
    name = topic("changelog", 2)
    producer = Producer(
        {"bootstrap.servers": broker.address, "transactional.id": name, "log_level": 0}
    )
    producer.init_transactions(120)

    def write(commit: bool, *rows: tuple[int, bytes, bytes | None]) -> None:
        producer.begin_transaction()
        for partition, key, value in rows:
            producer.produce(name, value, key, partition)
        producer.flush(120)
        producer.commit_transaction(120) if commit else producer.abort_transaction(120)

    write(
        True,
        (0, progress_key("a"), b"1"),
        (0, progress_key("gone"), b"5"),
        (0, buffer_key("a", 7), b"{}\nbody"),
        (0, b"c", b"{}"),
        (1, progress_key("b"), b"3"),
    )
    state = b'{"last":9,"state":"no end","total":1}'
    write(
        True,
        (0, progress_key("a"), encode_progress(2, state)),
        (0, progress_key("gone"), None),
        (1, progress_key("é|%7C"), b"4"),
    )
    write(False, (0, progress_key("a"), b"99"), (1, progress_key("void"), b"1"))
    # Partition 0: four rows, a marker, two rows, a marker, an aborted row, a marker.
    # Partition 1: a row and its marker, twice, an aborted one, and two foreign rows with theirs.
    foreign = (1, b"p\xff", b"1"), (1, progress_key("b"), b"hello")
    write(True, *foreign)
    ends = {0: (0, 10), 1: (0, 9)}
    write(True, (0, progress_key("a"), b"3"), (1, progress_key("later"), b"1"))
    return name, {name: ends}


WANTED = {"board": {"a": b'{"last":2}', "b": b"3", "é|%7C": b"4"}, "new": {}}


def test_the_last_committed_rows_of_the_spans_without_the_streams_dictionaries(
    broker: BrokerAddress, changelog: tuple[str, Spans]
) -> None:
    _, spans = changelog
    views: dict[str, Spans] = {"board": spans, "new": {"another": {0: (4, 4)}}}
    assert progress_rows(app(broker.address), views, lambda: None) == WANTED

    def stop() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        progress_rows(app(broker.address), views, stop)


def test_they_are_kept_for_a_rebuild_that_is_resumed(
    broker: BrokerAddress, changelog: tuple[str, Spans], tmp_path: Path
) -> None:
    _, spans = changelog
    file = tmp_path / "limits.arrow"
    with Limits(app(broker.address), {"board": spans}, file, lambda: None) as limits:
        assert limits.progress() == {"board": WANTED["board"]}
    # Nothing is read again, whatever there is by then.
    with Limits(app("127.0.0.1:1"), {"board": spans}, file, lambda: None) as again:
        assert again.progress() == {"board": WANTED["board"]}


def test_who_does_not_wait_ends_the_reading(
    broker: BrokerAddress, changelog: tuple[str, Spans], tmp_path: Path
) -> None:
    name, _ = changelog

    def stop() -> None:
        raise Stopped

    # An end that is not there yet would be waited for.
    far: dict[str, Spans] = {"board": {name: {0: (0, 1_000)}}}
    limits = Limits(app(broker.address), far, tmp_path / "limits.arrow", stop)
    with pytest.raises(Stopped), limits:
        limits.progress()
    assert not (tmp_path / "limits.arrow").exists()
