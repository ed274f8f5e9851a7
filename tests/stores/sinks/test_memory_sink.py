"""A sink of a user's own, opened by its name, does what every sink has to do."""

from collections.abc import Iterable

import pytest

from stores.sinks import DeclaredTable, Sink, open_sink
from stores.sinks.contract import EachDeadContract, SinkContract
from tests.stores.sinks.memory_sink import STORES

OPENING = "tests.stores.sinks.memory_sink:open_memory"


class TestMemorySink(SinkContract, EachDeadContract):
    @pytest.fixture(autouse=True)
    def _url(self, request: pytest.FixtureRequest) -> None:
        self.url = f"{OPENING}?{request.node.name}"
        self.forget()

    def open(self, tables: Iterable[DeclaredTable] = (), shadow: str | None = None) -> Sink:
        return open_sink(self.url, tables, shadow)

    def forget(self) -> None:
        STORES.pop(self.url, None)
