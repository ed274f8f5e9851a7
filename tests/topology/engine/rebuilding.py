"""A partition whose view rebuilds streams, and a handler whose rows show the order of events."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import orjson

from tests.topology.deliveries import Arrival, body
from tests.topology.partition import Partition, shop
from topology import Delete, Emit, Event, Record, Topology, Upsert, rebuild_stream, skip
from topology.engine.commit_unit import CommitUnit
from topology.view_rebuild.history import Histories, History
from topology.view_rebuild.stream_rebuild import rebuild

Rows = dict[tuple[str, bytes], dict[str, Any]]


def trail(event: Event, state: dict[str, Any]) -> Iterator[Any]:
    """A row per stream, one per event, and one that comes and goes with what was before."""
    state["trail"] = [*state.get("trail", []), event.sequence]
    yield Upsert("board", key={"id": event.stream}, values={"trail": str(state["trail"])})
    before = state["trail"][-2] if len(state["trail"]) > 1 else 0
    key = {"id": event.stream, "n": event.sequence, "before": before}
    yield Upsert("steps", key=key, values={f"c{before % 3}": event.sequence})
    sometimes = {"id": event.stream, "n": event.sequence // 3}
    if before % 2:
        yield Upsert("odd", key=sometimes, values={f"c{event.sequence % 2}": before})
    elif event.sequence % 3 == 0:
        yield Delete("odd", key=sometimes)
    yield Emit("log", event.stream, {"sequence": event.sequence})


def rebuilding(
    after: float = 3, handler: Any = trail, limit: int = 10_000, **more: Any
) -> Topology:
    """The shop whose board rebuilds streams."""
    policies = {"gap": skip(after=after), "late": rebuild_stream(limit), **more}
    return shop(handler=handler, **policies)


class Rebuilding(Partition):
    """Keeps its input, as Kafka does."""

    def __init__(self, topology: Topology, **options: Any) -> None:
        self.inputs: list[Record] = []
        super().__init__(topology, **options)

    def feed(self, batch: Sequence[Record], horizon: int | None = None) -> None:
        at = len(self.inputs)
        batch = [replace(record, offset=at + number) for number, record in enumerate(batch)]
        self.inputs += batch
        super().feed(batch, horizon)

    def history(self, stream: str) -> History:
        histories = Histories(self.view(), [stream])
        for record in self.inputs[: self.position]:
            histories.message(record)
        for at, out in enumerate(self.written["shop.board"]):
            histories.output(
                Record("shop.board", 0, at, out.key, out.value, out.headers, out.timestamp)
            )
        return histories.streams[stream]

    def rebuild(self) -> CommitUnit:
        """The unit that rebuilds the first of the streams that wait for it."""
        view = self.view()
        stream, unit = view.rebuilds[0], CommitUnit("orders", 0, now=self.now)
        rebuild(view, stream, self.history(stream), unit)
        self.task.finish(unit)
        return unit

    def settle(self) -> None:
        """Rebuild what is to be, and finish what goes on then."""
        while self.view().rebuilds:
            self.commit(self.rebuild())
            while self.task.unfinished:
                self.commit(self.process([]))


def orders(*events: tuple[str, int], start: int = 0) -> list[Record]:
    """Records of the topic `orders` from an offset on."""
    return [
        Record("orders", 0, start + at, stream.encode(), body(stream, sequence), timestamp=at)
        for at, (stream, sequence) in enumerate(events)
    ]


def read_store(partition: Partition, topic: str = "shop.board") -> Rows:
    """The tables as a read store has them, which takes what is above (epoch, sequence) only."""
    rows: Rows = {}
    fence: dict[str, tuple[int, int]] = {}
    for value in partition.values(topic):
        at = value.get("epoch", 0), value["sequence"]
        if at <= fence.get(value["stream"], (0, -(2**63))):
            continue
        fence[value["stream"]] = at
        for change in value["changes"]:
            place = change["table"], orjson.dumps(change["key"], option=orjson.OPT_SORT_KEYS)
            if change["op"] == "delete":
                rows.pop(place, None)
            else:
                rows.setdefault(place, {}).update(change["values"])
    return rows


def in_sequence(arrivals: Sequence[Arrival], handler: Any = trail) -> Rebuilding:
    """A partition that got the same events once each and in sequence, with no gap in between."""
    partition = Rebuilding(rebuilding(handler=handler))
    events = sorted({(each.stream, each.nth + 1) for each in arrivals})
    partition.feed(orders(*events))
    partition.advance(10**9)
    return partition
