"""Handlers that wait, side by side.

ORDERING: prefix, order of commit, where handlers run, broker, data folder.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from bench.ordering.work import CONCURRENCY
from topology import Emit, Topology
from topology.faust import compile

prefix, commit, run_in, broker, datadir = os.environ["ORDERING"].split(" ")
topology = Topology(prefix)


async def in_task(event: Any) -> AsyncIterator[Emit]:
    """Wait for as long as the message says, in microseconds."""
    began = time.time()
    await asyncio.sleep(int(event.content) / 1e6)
    yield took(event, began)


def in_thread(event: Any) -> Iterator[Emit]:
    """Wait for as long as the message says, in microseconds."""
    began = time.time()
    time.sleep(int(event.content) / 1e6)
    yield took(event, began)


def took(event: Any, began: float) -> Emit:
    """What the work really took."""
    text = f"{event.message.offset} {began:.6f} {(time.time() - began) * 1e6:.0f}"
    return Emit(f"{prefix}.out", event.message.key, text.encode())


topology.parallel(
    "ordered", topic=f"{prefix}.in", partitions=1, workers=CONCURRENCY,
    commit="arrival" if commit == "arrival" else "stream",
    emits=[f"{prefix}.out"],
)(in_thread if run_in == "threads" else in_task)  # fmt: skip

app = compile(topology, broker=broker, datadir=datadir, group=prefix)
