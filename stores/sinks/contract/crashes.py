"""Crashes in the midst of a batch."""

from typing import Any

import pytest

from stores.sinks import Batch, Position
from stores.sinks.contract.example_records import ORDERS, TOPIC, Rows, delete, order, upsert, value
from stores.sinks.contract.store import Crash, StoreUnderTest


class CrashingStore(StoreUnderTest):
    def crash_at_any_step(self, which: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Crash before or after each step, and see that the batch is then applied once."""
        steps = self.crash_points(self.steps)
        self.apply(order(0, 1, state="new"), (TOPIC, 0, 1, b"dead"))
        before = self.state()
        batch = [
            order(2, 2, state="paid", added="column"),
            (TOPIC, 0, 3, value("b", 1, upsert("other", {"id": "x"}, a=1))),
            (TOPIC, 0, 4, value("c", 1, delete("orders", {"id": 1}))),
            (TOPIC, 0, 5, value("d", 1, upsert("orders", {"id": 2}, total=1.0))),
            (TOPIC, 1, 0, b"dead"),
        ]
        for step in steps:
            with monkeypatch.context() as patch, self.open([ORDERS]) as sink:
                self.crash(patch, sink, step, which)
                with pytest.raises(Crash):
                    sink.apply(batch, Batch("query", 0))
            if self.atomic:
                assert self.state() == before, step
                assert self.rows("other") == {}, step
        with self.open([ORDERS]) as sink:
            done = sink.apply(batch, Batch("query", 0))
            # Where tables are committed one by one, the last crash was behind the last of them.
            whole = which == "after" and not self.atomic
            assert (done.applied, done.replayed) == ((0, 5) if whole else (4, 0))
            assert sink.last_batch("query") == 0
            assert sink.progress() == [
                Position(TOPIC, 0, 6, applied=5, dead=1),
                Position(TOPIC, 1, 1, dead=1),
            ]
        assert self.rows("other") == {("x",): {"a": 1}}
        assert self.rows("orders") == {(2,): {"total": 1.0}}
        assert len(self.dead()) == 2

    def state(self) -> tuple[Rows, list[Any], list[Position]]:
        with self.open() as sink:
            return self.rows("orders"), self.dead(), sink.progress()
