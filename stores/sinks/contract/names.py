"""Names of tables and columns, whatever is in them, through everything that is done with them."""

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from stores.sinks.contract.example_records import ODD_NAMES, TOPIC
from stores.sinks.contract.store import StoreUnderTest
from stores.sinks.contract.values import record_of
from stores.sinks.limits import STRICTEST
from topology.model.changes import Delete, Upsert
from topology.model.table import Table

ROOM = 40
"""Bytes of a name, so that a shadow's fits behind it."""
_names = (
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
    | st.text("?%\"'`$;:{}[]()\\/@#&*.,- \n\t_aB", min_size=1)
).filter(
    lambda name: (
        len(name.encode()) <= ROOM
        and not name.startswith("_")
        and not name.lower().startswith("sqlite_")
        and "__" not in name  # which are only before a shadow's name
        and name.casefold() not in ("id", "at")
        and not name.startswith(STRICTEST.table_prefixes)
        and name not in STRICTEST.own_columns
    )
)


class NamesContract(StoreUnderTest):
    def test_any_name_is_only_a_name(self) -> None:
        tried = settings(
            max_examples=self.examples,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        )
        odd = example([name for name in ODD_NAMES if "__" not in name and len(name) <= ROOM])
        names = st.lists(_names, min_size=1, max_size=3, unique_by=str.casefold)
        tried(odd(given(names)(self._any_name)))()

    def _any_name(self, names: list[str]) -> None:
        self.forget()
        keyed = [Table(name, {name: str, "id": int}, {}) for name in names]
        with self.open(keyed) as sink:
            rows = [Upsert(n, {n: n, "id": 1}, {f"{n}?%": n}) for n in names]
            wide = Upsert("wide", {"id": 1}, dict.fromkeys(names, "x"))
            assert sink.apply([record_of(0, *rows, wide)]).dead == 0
            for name in names:
                assert list(sink.rows(name)) == [{name: name, "id": 1, f"{name}?%": name}]
                assert sink.count(name) == 1
            assert list(sink.rows("wide")) == [{"id": 1, **dict.fromkeys(names, "x")}]
            with self.open(keyed, "next") as shadow:
                shadow.apply([record_of(0, *rows, wide), record_of(1, *rows)])
                assert [shadow.count(name) for name in names] == [1] * len(names)
            sink.switch("next", [TOPIC])
            sink.drop("old")
        with self.open(keyed) as sink:
            gone = [Delete(name, {name: name, "id": 1}) for name in names]
            sink.apply([record_of(2, *gone)])
            assert [sink.count(name) for name in names] == [0] * len(names)
            assert sink.shadows() == []
