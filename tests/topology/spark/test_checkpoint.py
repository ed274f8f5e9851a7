"""What a query's checkpoint folder remembers of its views, without Spark."""

from types import SimpleNamespace
from typing import Any

import pytest

from topology import Topology
from topology.spark.batches import Batches
from topology.spark.checkpoint import Checkpoint
from topology.spark.codec import Outcome
from topology.spark.settings import CannotRun


class MemoryCheckpoint(Checkpoint):
    """The folder as a dict."""

    def __init__(self) -> None:
        self.folder, self.content = "checkpoint", dict[str, bytes]()
        self._path = lambda folder, name: name
        self._files = SimpleNamespace(rename=self._rename)

    def _rename(self, old: str, new: str) -> None:
        self.content[new] = self.content.pop(old)

    def _read(self, name: str) -> str | None:
        found = self.content.get(name)
        return None if found is None else found.decode()

    def _write(self, name: str, content: bytes) -> None:
        self.content[name] = content

    def _names(self, folder: str) -> list[str]:
        return [each.rpartition("/")[2] for each in self.content if each.startswith(f"{folder}/")]


def shop(*views: str) -> Topology:
    found = Topology("shop")
    orders = found.source("orders", inspector=lambda message: None)
    for view in views:

        @found.view(view, of=orders)
        def handle(event: object) -> None: ...

    return found


def run_batch(checkpoint: Checkpoint, topology: Topology) -> None:
    """Start a query and let it run a batch, which fails before it has read anything."""
    checkpoint.check(topology)
    nobody: Any = SimpleNamespace()
    with pytest.raises(AttributeError):
        Batches(topology, checkpoint, nobody, nobody, None, topics=True)(nobody, 1)


def test_a_view_that_was_taken_out_for_a_start_that_failed_is_put_back() -> None:
    """Nothing was read without it: Kafka was away, or the read ended before the first batch."""
    checkpoint = MemoryCheckpoint()
    run_batch(checkpoint, shop("board", "stock"))
    checkpoint.content["offsets/0"] = b""
    checkpoint.check(shop("board"))
    run_batch(checkpoint, shop("board", "stock"))


def test_a_view_that_was_taken_out_is_refused_when_it_is_put_back() -> None:
    checkpoint = MemoryCheckpoint()
    checkpoint.check(shop("board", "stock"))
    checkpoint.content["offsets/0"] = b""
    run_batch(checkpoint, shop("board"))
    run_batch(checkpoint, shop("board"))
    for _ in range(2):
        with pytest.raises(CannotRun, match="view 'stock' was taken out before"):
            checkpoint.check(shop("board", "stock"))
    with pytest.raises(CannotRun, match="view 'more' is new"):
        checkpoint.check(shop("board", "more"))
    checkpoint.check(shop("board"))


def test_counts_that_are_half_written_are_those_of_the_batch_before() -> None:
    """However often the driver begins anew: it never writes over the newest that are whole."""
    checkpoint = MemoryCheckpoint()
    nobody: Any = None
    for number in range(7):
        batches = Batches(shop("board"), checkpoint, nobody, nobody, None, topics=True)
        before = dict(checkpoint.content)
        batches._count(number, [Outcome(counts={"board": {"received": 1}})])
        (written,) = (n for n, text in checkpoint.content.items() if before.get(n) != text)
        whole, checkpoint.content[written] = checkpoint.content[written], b"[1, {"
        found, counts, _ = checkpoint.counts()
        assert (found, counts.get("board", {}).get("received", 0)) == (number - 1, number)
        checkpoint.content[written] = whole
