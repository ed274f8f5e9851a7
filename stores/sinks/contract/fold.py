"""Any batches, in any order, with any replays: what comes out is the plain fold."""

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stores.sinks import OutputRecord
from stores.sinks.contract.example_records import TOPIC, Change, Rows, delete, upsert, value
from stores.sinks.contract.store import StoreUnderTest


class FoldContract(StoreUnderTest):
    def test_any_batches_with_any_replays_are_the_plain_fold(self) -> None:
        tried = settings(
            max_examples=self.examples,
            suppress_health_check=[HealthCheck.too_slow],
        )
        tried(given(st.data())(self._is_the_plain_fold))()

    def _is_the_plain_fold(self, data: st.DataObject) -> None:
        self.forget()
        logs = [data.draw(_logs(partition)) for partition in (0, 1)]
        at = [0, 0]
        high = [0, 0]
        while any(at[p] < len(logs[p]) for p in (0, 1)) and data.draw(st.integers(0, 9)) < 9:
            batch: list[OutputRecord] = []
            for p in (0, 1):
                if data.draw(st.integers(0, 3)) == 0:
                    at[p] = data.draw(st.integers(0, at[p]))  # the checkpoint is gone
                end = data.draw(st.integers(at[p], len(logs[p])))
                batch += logs[p][at[p] : end]
                at[p] = end
                high[p] = max(high[p], end)
            self.apply(*data.draw(st.permutations(batch)))
        self.apply(*logs[0], *logs[1])
        expected = _fold([*logs[0], *logs[1]])
        assert {name: self.rows(name) for name in ("orders", "notes")} == expected


@st.composite
def _logs(draw: st.DrawFn, partition: int) -> list[OutputRecord]:
    """A partition's records: two streams, increasing sequences, duplicates, offsets with holes."""
    records: list[OutputRecord] = []
    sequences = {f"{name}{partition}": draw(st.integers(-3, 3)) for name in "ab"}
    written: dict[str, list[bytes]] = {stream: [] for stream in sequences}
    offset = 0
    for _ in range(draw(st.integers(0, 12))):
        offset += draw(st.integers(1, 3))
        stream = draw(st.sampled_from(sorted(sequences)))
        if written[stream] and draw(st.integers(0, 3)) == 0:
            body = draw(st.sampled_from(written[stream]))  # its producer wrote it again
        else:
            sequences[stream] += draw(st.integers(1, 3))
            changes = draw(st.lists(_changes(partition), min_size=0, max_size=3))
            body = value(stream, sequences[stream], *changes)
            written[stream].append(body)
        records.append((TOPIC, partition, offset, body))
    return records


def _changes(partition: int) -> st.SearchStrategy[Change]:
    keys = st.sampled_from([partition * 10 + 1, partition * 10 + 2])
    orders = st.fixed_dictionaries(
        {},
        optional={
            "state": st.sampled_from(["new", "paid", None]),
            "total": st.sampled_from([1.5, None]),
            "added": st.sampled_from([1, 2, None]),
        },
    )
    return st.one_of(
        st.builds(lambda key, values: upsert("orders", {"id": key}, **values), keys, orders),
        st.builds(lambda key: delete("orders", {"id": key}), keys),
        st.builds(lambda key, n: upsert("notes", {"of": key, "n": n}, text="t"), keys, keys),
        st.builds(lambda key, n: delete("notes", {"of": key, "n": n}), keys, keys),
    )


def _fold(records: list[OutputRecord]) -> dict[str, Rows]:
    """What the tables should hold: record by record, with plain dictionaries."""
    tables: dict[str, Rows] = {"orders": {}, "notes": {}}
    last: dict[str, int] = {}
    for *_, body in records:
        record = orjson.loads(body or b"")
        if record["sequence"] <= last.get(record["stream"], -(2**63)):
            continue
        last[record["stream"]] = record["sequence"]
        for change in record["changes"]:
            rows, key = tables[change["table"]], tuple(change["key"].values())
            if change["op"] == "delete":
                rows.pop(key, None)
            else:
                rows.setdefault(key, {}).update(change["values"])
    return {
        name: {
            key: {column: value for column, value in row.items() if value is not None}
            for key, row in rows.items()
        }
        for name, rows in tables.items()
    }
