"""Handlers that wait, side by side. ORDERING: prefix, order of commit, broker, data folder."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from typing import Any

from bench.ordering.work import CONCURRENCY
from topology import Emit, Topology
from topology.faust import compile

prefix, commit, broker, datadir = os.environ["ORDERING"].split(" ")
topology = Topology(prefix)


@topology.parallel(
    "ordered", topic=f"{prefix}.in", partitions=1, workers=CONCURRENCY,
    commit="arrival" if commit == "arrival" else "stream",
    emits=[f"{prefix}.out"],
)  # fmt: skip
async def ordered(event: Any) -> AsyncIterator[Emit]:
    """Wait for as long as the message says, in microseconds."""
    began = time.time()
    await asyncio.sleep(int(event.content) / 1e6)
    text = f"{event.message.offset} {began:.6f} {(time.time() - began) * 1e6:.0f}"
    yield Emit(f"{prefix}.out", event.message.key, text.encode())


app = compile(topology, broker=broker, datadir=datadir, group=prefix)
