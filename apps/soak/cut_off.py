"""`python -m soak.cut_off STEP WHEN NUMBER …`: a materializer that kills itself (SIGKILL).

STEP: a method of the sink, WHEN: before or after, NUMBER: of its calls, from 1 on. The rest goes to
the materializer.
"""

import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from typing import Any

from sequitur.materialize.command import main
from stores.sinks.delta.sink import DeltaSink
from stores.sinks.sql.sink import SqlSink

SQL_STEPS = (
    "_make_tables",
    "_delete",
    "_upsert",
    "_save_progress",
    "_save_positions",
    "_save_dead",
    "_save_batch",
    "apply",
)
DELTA_STEPS = ("_make_tables", "_begin", "_write_rows", "_save_dead", "_save_progress", "apply")


def killing(step: Callable[..., Any], when: str, number: int) -> Callable[..., Any]:
    """The step, at whose `number`-th call this process ends, whatever it is doing."""
    calls = count(1)

    def call(*arguments: Any, **named: Any) -> Any:
        last = next(calls) == number
        if last and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        done = step(*arguments, **named)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    return call


if __name__ == "__main__":
    name, when, number, *arguments = sys.argv[1:]
    for sink in (SqlSink, DeltaSink):
        if name in (SQL_STEPS if sink is SqlSink else DELTA_STEPS):
            setattr(sink, name, killing(getattr(sink, name), when, int(number)))
    sys.exit(main(arguments))
