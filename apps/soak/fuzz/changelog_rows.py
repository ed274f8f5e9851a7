"""Records in a view's changelog, as a table is restored from them."""

from hypothesis import strategies as st

from soak.fuzz.mutation import bodies, changed_bytes
from stores.view_state.memory import MemoryTable
from topology import Inspector, Record, Topology, adaptive, park, rebuild_stream, skip, spill
from topology.engine.state.foreign_rows import foreign
from topology.engine.state.rows import buffer_key, encode_message, late_key, progress_key
from topology.engine.stream_task import StreamTask
from topology.model.errors import Malformed

Row = tuple[bytes | None, bytes | None]

_NOW = 1_700_000_000_000
_MESSAGE = Record("in", 0, 7, b"a", b'{"id": "a", "n": 7}', (("kind", b"Paid"),), _NOW)
_ROW = encode_message(_MESSAGE, _NOW)
_PROGRESS = {
    "last": 3, "skipped": [[1, 2]], "since": _NOW, "rejected": 5, "held": True,
    "retry": {"attempts": 2, "due": _NOW}, "recent": [0, 1], "closed": _NOW, "epoch": 1,
    "rebuild": [2], "state": {"n": 1},
}  # fmt: skip
_GOOD: list[tuple[bytes, object]] = [
    (progress_key("a"), 3),
    (progress_key("b"), _PROGRESS),
    (progress_key("a"), {"last": 3, "since": _NOW}),
    (buffer_key("a", 7), _ROW),
    (buffer_key("b", 9), _ROW),
    (late_key("b", 2), _ROW),
    (b"d" + (_NOW).to_bytes(8, "big") + b"a", b""),
    (b"x" + (17).to_bytes(8, "big"), b""),
    (b"c", {"received": 4, "processed": 3, "waiting": 1}),
    (b"l", {"bins": [[3, 1.0]], "given_up": [["a", 1, 2, _NOW]]}),
    (b"o", {"input": 4, "halted": "by me", "ahead": "f", "redelivered": 2}),
    (b"\0offset", b"99"),
    (b"!in-step", b"99"),
]


class ChangelogRows:
    """Rows as the engine writes them, changed, under keys that are changed as well."""

    name = "changelog-rows"

    def strategy(self) -> st.SearchStrategy[list[Row]]:
        """Some rows of one changelog."""
        keys = [key for key, _ in _GOOD]
        key = st.sampled_from(keys) | st.sampled_from(keys).flatmap(changed_bytes) | st.none()
        wild = st.tuples(key, bodies([value for _, value in _GOOD]))
        own = st.sampled_from(_GOOD).flatmap(
            lambda row: st.tuples(st.just(row[0]), bodies([row[1]]))
        )
        return st.lists(own | wild, min_size=1, max_size=8)

    def run(self, input: list[Row]) -> None:
        """A row is the engine's, and then it starts and works with it, or it is set aside."""
        table, taken = MemoryTable(), 0
        for key, value in input:
            if foreign(key, value):
                continue
            assert key is not None
            assert not key.startswith((b"\0", b"!")), "the table's own row"
            table.write([(key, value)])
            taken += 1
        for policies in (
            {"gap": skip(after=adaptive()), "full": spill()},
            {"late": rebuild_stream(), "error": park(), "full": spill()},
        ):
            topology = Topology("fuzz")
            source = topology.source("in", inspector=Inspector("id", "n"), keyed=True)
            topology.view("v", of=source, handler=_seen, **policies)  # type: ignore[arg-type]
            own = MemoryTable()
            own.write(table.scan(b"\0", b"\xff" * 40))
            self._work(StreamTask(topology, source, 0, {"v": own}, now=_NOW), own)

    def _work(self, task: StreamTask, table: MemoryTable) -> None:
        messages = [
            Record("in", 0, at, b"a", b'{"id": "%s", "n": %d}' % (stream, at), (), _NOW)
            for at, stream in ((1, b"a"), (4, b"a"), (5, b"b"), (8, b"a"), (10, b"b"))
        ]
        for at in range(3):
            now = _NOW + 1_000_000 * at
            try:
                unit = task.process(messages if at == 1 else [], now, now)
            except Malformed as reason:
                raise AssertionError("a row that was taken ends the step") from reason
            table.write(unit.rows.get("v", ()))


def _seen(event: object) -> None:
    """Keeps nothing."""
