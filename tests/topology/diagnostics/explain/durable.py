"""DurableState state of a test driver, as somebody reads it who has nothing but topics."""

import shlex

from stores.view_state.memory import MemoryTable
from tests.topology.handled import order
from topology import Record, TopologyTestDriver
from topology.diagnostics.explain import (
    Account,
    Fold,
    PendingRedelivery,
    StreamContext,
    WaitingStreams,
    account,
    of_stream,
    of_waiting,
)
from topology.diagnostics.explain.fold import Wanted, waiting_rows
from topology.engine.commands.execute import CommandResult
from topology.engine.redelivery.records import revive
from topology.engine.view_task import ViewTask
from topology.testing.driver.explain import context_of

COMMAND = "faust -A shop"
OWNER = "worker-1 on 10.0.0.1"


def task_of(driver: TopologyTestDriver, wanted: Wanted, view: str = "board") -> ViewTask:
    """The view, made of the rows of its table that are wanted."""
    fold = Fold(wanted)
    for key, value in driver._storage.stores[view].rows.items():
        fold.take(key, value)
    table = MemoryTable()
    rows = waiting_rows(fold) if wanted is of_waiting else fold.rows
    table.write(sorted(rows.items()))
    return ViewTask(driver.topology.views[view], table)


def waiting_of(driver: TopologyTestDriver, known: WaitingStreams | None = None) -> WaitingStreams:
    """What waits in the view `board`, by its changelog."""
    found = known or WaitingStreams()
    for key, value in driver._storage.stores["board"].rows.items():
        found.take(key, value)
    return found


def explained(driver: TopologyTestDriver, stream: str = "a", **context: object) -> Account:
    """The account of a stream of the view `board`, all of its input being read."""
    task = task_of(driver, of_stream(stream))
    known = context_of(driver._storage, task, stream, now=driver.now)
    known |= {"owner": OWNER, "command": COMMAND, **context}
    return account(task, stream, StreamContext(**known))  # type: ignore[arg-type]


def away(driver: TopologyTestDriver, stream: str) -> tuple[PendingRedelivery, ...]:
    """The stream's events in the redelivery topic that did not come again yet."""
    view = driver.topology.views["board"]
    position = task_of(driver, of_stream(stream)).state.positions.redelivered
    return aways(driver, driver._storage.topics[view.redeliver_topic][position:], stream)


def aways(
    driver: TopologyTestDriver, records: list[Record], stream: str
) -> tuple[PendingRedelivery, ...]:
    view = driver.topology.views["board"]
    mine = [record for record in records if record.key == stream.encode()]
    return tuple(
        PendingRedelivery(stream, event.sequence, event.attempt, 0)  # type: ignore[attr-defined]
        for event in revive(view, mine, 0)
    )


def send(driver: TopologyTestDriver, *sequences: int, stream: str = "a", kind: str = "Ok") -> None:
    for sequence in sequences:
        driver.pipe("orders", order(sequence, stream, kind))


def obeyed(driver: TopologyTestDriver, line: str) -> CommandResult:
    """What comes of a command line that an account suggests."""
    assert line.startswith(COMMAND + " ")
    name, *words = shlex.split(line.removeprefix(COMMAND))
    view, force, dry_run, arguments = "board", False, False, []
    while words:
        match words.pop(0):
            case "--view":
                view = words.pop(0)
            case "--force":
                force = True
            case "--dry-run":
                dry_run = True
            case "--":
                arguments += words
                words = []
            case word:
                arguments.append(word)
    stream = None if name in ("halt", "resume") else arguments[0]
    sequence = int(arguments[1]) if name == "skip" else None
    return driver.command(name, view, stream, sequence, force=force, dry_run=dry_run)
