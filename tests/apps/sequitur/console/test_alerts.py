"""What a process of alerts tells of itself, and what is no such process."""

from types import SimpleNamespace
from typing import Any

import pytest

from sequitur.alerts.pages import AlertPages
from sequitur.console.alerts import alerted
from topology.monitoring import Pages


class Other(Pages):
    def collect(self) -> list[Any]:
        return []

    async def troubles(self) -> list[str]:
        return []


async def test_alerts_are_counted_by_pattern() -> None:
    actions = SimpleNamespace(done=2, failed=0, all_held_back=1)
    watch: Any = SimpleNamespace(
        actions=actions, watching=False, records=9, alerts={"<b>many</b>": 3}
    )
    pages = AlertPages(watch, {"bootstrap_servers": "127.0.0.1:9"})
    async with pages.at("127.0.0.1:0"):
        found = await alerted(None, f"http://{pages.address}/")
    assert (found.records, found.patterns) == (9, {"<b>many</b>": 3})
    assert found.actions == {"done": 2, "failed": 0, "held_back": 1}
    assert found.troubles


async def test_another_process_is_told_apart() -> None:
    pages = Other()
    async with pages.at("127.0.0.1:0"):
        with pytest.raises(ValueError, match="no process of sequitur alerts"):
            await alerted(None, f"http://{pages.address}")
