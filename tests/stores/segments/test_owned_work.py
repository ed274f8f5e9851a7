"""One owner at a time, also while it connects."""

import asyncio
from types import SimpleNamespace
from typing import Any

from stores.segments.owned_work import OwnedWork


class SlowToConnect(OwnedWork):
    """Connects for as long as its lease is renewed."""

    def __init__(self) -> None:
        super().__init__(SimpleNamespace(stand_by=0), "me")  # type: ignore[arg-type]
        self.renewed, self.connected = 0, asyncio.Event()

    def renew(self) -> None:
        self.renewed += 1

    def _own(self) -> Any:
        lease = SimpleNamespace(seconds=0.1)
        return SimpleNamespace(lease=lease, is_due=False, renew=self.renew, let_go=lambda: None)

    async def _connect(self, owner: Any) -> None:
        while self.renewed < 3:
            await asyncio.sleep(0.01)
        self.connected.set()

    async def _work(self, owner: Any, wait: float) -> int:
        return 0

    async def _disconnect(self) -> None: ...


async def test_a_lease_is_renewed_while_its_owner_connects() -> None:
    """Or the next one would connect meanwhile, and lose it likewise."""
    work = SlowToConnect()
    running = asyncio.create_task(work.run())
    async with asyncio.timeout(60):
        await work.connected.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
