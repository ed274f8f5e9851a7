"""Recovery does not wait for a clock that was set back."""

from typing import Any

import pytest

from stores.two_phase import recovery as two_phase_recovery
from stores.two_phase.prepared import PreparedTransaction
from stores.two_phase.recovery import Recovery


class Decisions:
    id = "log"

    def outcome(self, *_: Any) -> str:
        return "committed"


def part(age: float) -> PreparedTransaction:
    return PreparedTransaction("other", f"sequitur:log:{age}:other", "log", str(age), 0.0, age)


def test_what_was_prepared_in_the_future_is_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    def end(engine: Any, gid: str, *, commit: bool) -> bool:
        ended.append(gid)
        return True

    monkeypatch.setattr(two_phase_recovery, "end", end)
    parts = [part(-3600.0), part(1.0), part(60.0)]
    decisions: Any = Decisions()
    found, nothing = Recovery(), list[str]
    two_phase_recovery._resolve(found, decisions, None, parts, 10.0, nothing)  # type: ignore[arg-type]
    assert ended == [parts[0].gid, parts[2].gid]
    assert found.open == [parts[1]]
