"""Views with workers for the soak: slow events, failures, roll backs and parked streams on purpose.

SOAK_MENDED names the file with which handlers no longer fail; until then some events always do, so
that their streams are parked.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from topology import Event, Source, Topology, Upsert, park, wait_and_commit, wait_and_roll_back

MENDED = Path(os.environ.get("SOAK_MENDED", "mended"))
WORKED = ("in_arrival", "in_streams")
"""Committed in the order of arrival; in the order of each stream."""
FAILS, FLAKY, SLOW = 50, 41, 37
"""One in so many sequences fails until it is mended, fails once, takes its time."""
Total = Callable[[str, Event, dict[str, Any]], Upsert]


def declare_worked(topology: Topology, source: Source, total: Total) -> None:
    """Declare a view for each order of commits."""
    for name, commit, older in (
        (WORKED[0], "arrival", wait_and_roll_back(0.01)),
        (WORKED[1], "stream", wait_and_commit(0.01)),
    ):
        topology.view(
            name, of=source, workers=16, commit=commit, older=older, error=park(),  # type: ignore[arg-type]
            handler=_handler(name, total),
        )  # fmt: skip


def _handler(name: str, total: Total) -> Callable[..., AsyncIterator[Upsert]]:
    failed: set[tuple[str, int]] = set()

    async def handler(event: Event, state: dict[str, Any]) -> AsyncIterator[Upsert]:
        sequence = event.sequence
        if sequence % SLOW == 1:
            await asyncio.sleep(0.03)
        if (fails := sequence % FAILS == 7) or sequence % FLAKY == 3:
            at, before = (event.stream, sequence), len(failed)
            failed.add(at)
            if (fails or len(failed) > before) and not MENDED.exists():
                raise TimeoutError("until it is mended" if fails else "once")
        yield total(name, event, state)

    return handler
