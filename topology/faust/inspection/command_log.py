"""What operators told the views of a topology."""

from contextlib import suppress
from typing import Any, NamedTuple

from aiokafka import TopicPartition

from topology.declaration.view import View
from topology.diagnostics.explain import of_counts
from topology.diagnostics.explain.command_log import (
    ALL,
    WAITS,
    CommandFilter,
    CommandRecord,
    answered_command,
    merged,
    pending_command,
)
from topology.diagnostics.records import body_of
from topology.engine.commands.command import decode_command
from topology.faust.inspection.durable import DurableState
from topology.faust.inspection.named import views_of

LIMIT = 50
"""Commands that are listed unless told otherwise."""


class Commands(NamedTuple):
    """found: the commands, the oldest first. unseen: what was not looked at, in words."""

    now: int
    found: list[CommandRecord]
    unseen: list[str]


async def commands(
    app: Any, *, view: str = "", limit: int = LIMIT, choice: CommandFilter = ALL
) -> Commands:
    """List the commands that wait, and the last ones that were answered.

    Args:
        app: what `compile` made; no worker is needed, and none is disturbed.
        view: only this one; all unless given.
        limit: commands at most; those that wait are all there.
        choice: which of them.

    Returns:
        The commands, the oldest first, and what was not looked at.

    Raises:
        KeyError: there is no such view.
        TopicMissing: no worker of the topology has run yet.
    """
    views = views_of(app, view)
    names = {each.name for each in views}
    async with DurableState(app) as durable:
        found: list[CommandRecord] = []
        unseen: list[str] = []
        for each in views:
            for number in range(each.of.partitions):
                found += await pending(durable, each, number)
        tail = await durable.end_of(durable.topology.audit_topic)
        if tail.cut:
            unseen.append(tail.cut)
        for record in tail.records:
            with suppress(KeyError):
                told = answered_command(body_of(record))
                if told.view in names or not (view or told.view):
                    found.append(told)
        every = [*filter(choice.takes, merged(found))]
        waiting = [told for told in every if told.state == WAITS]
        rest = [told for told in every if told.state != WAITS]
        kept = rest[len(rest) - max(0, limit - len(waiting)) :] if limit > len(waiting) else []
        return Commands(durable.now, sorted([*kept, *waiting], key=lambda t: t.given), unseen)


async def pending(
    durable: DurableState, view: View, partition: int, read: int | None = None
) -> list[CommandRecord]:
    """The commands to a view that wait in one partition. read: up to which offset they do not."""
    topic = TopicPartition(view.commands_topic, partition)
    span = (await durable.span([topic]))[topic]
    if span.end <= span.first:
        return []
    if read is None:
        read = (await durable.task(view, partition, of_counts)).state.positions.commands
    found: list[CommandRecord] = []
    async for record in durable.records(topic, max(span.first, read), span.end):
        with suppress(ValueError):
            found.append(pending_command(decode_command(record.value), record.timestamp))
    return found
