"""`python -m soak.cut_off STEP WHEN NUMBER …`: a materializer that kills itself (SIGKILL).

STEP: a method of the sink or its transaction, WHEN: before or after, NUMBER: of its calls, from 1
on. The rest goes to the materializer.
"""

import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from typing import Any

from sequitur.cli.main import main
from stores.sinks.delta.sink import DeltaSink
from stores.sinks.sql import postgres
from stores.sinks.sql.postgres_staging import PostgresTransaction
from stores.sinks.sql.sink import SqlSink
from stores.sinks.sql.transaction import SqlTransaction

SQL_STEPS = (
    "make_tables",
    "delete",
    "upsert",
    "save_streams",
    "save_positions",
    "save_dead",
    "save_batch",
    "apply",
)
STAGED_STEPS = ("write_staged", "save_positions", "save_dead", "save_batch", "drop_left")
"""Of a batch that executors have folded; the last one is not of its transaction."""
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
    for owner, steps in (
        (SqlTransaction, SQL_STEPS[:-1]),
        (SqlSink, SQL_STEPS[-1:]),
        (PostgresTransaction, STAGED_STEPS[:-1]),
        (postgres, STAGED_STEPS[-1:]),
        (DeltaSink, DELTA_STEPS),
    ):
        if name in steps:
            setattr(owner, name, killing(getattr(owner, name), when, int(number)))
    sys.exit(main(["materialize", *arguments]))
