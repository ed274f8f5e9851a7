"""`sequitur route audit`: each message consumed is routed, unrouted or failed, by the topics."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import click
from aiokafka import TopicPartition

from sequitur.cli.options import COUNT
from sequitur.cli.statuses import BAD_NEWS, DONE
from sequitur.route.loading import load_rules
from sequitur.route.on_router import RouterAt, on_router
from sequitur.route.unit_routing import STAGE
from topology.declaration.route import Route
from topology.declaration.topology import Topology
from topology.engine.intake import IntakeCounts
from topology.engine.route_task import REDRIVEN, endpoint_topic
from topology.engine.state.rows import split_buffer_key
from topology.faust import App
from topology.faust.inspection.durable import DurableState
from topology.faust.kafka.broker.shapes import configs
from topology.faust.kafka.clients import connected_consumer, partitions_of, read_range
from topology.faust.kafka.offsets import Committed, Offsets
from topology.model.counted import counted
from topology.model.ending import wait_for_stop
from topology.model.errors import DeclarationError
from topology.model.origin_headers import ORIGIN
from topology.model.printable import printable
from topology.routing import RULES_HEADER, RuleSet
from topology.routing.audit import Place, RouteAudit

MOST_VERSIONS = 100
"""Versions that differ from the current one in endpoints alone, and are checked by it."""


@click.command()
@on_router
@click.option("--rules", multiple=True, metavar="N=FILE", help="Rules of an older version.")
@click.option("--most", type=COUNT, default=1_000_000, show_default=True, help="Of a partition.")
def audit(at: RouterAt, rules: tuple[str, ...], most: int) -> int:
    """Account for each message that ROUTER consumed: routed, unrouted or failed.

    It counts by the topics, and routes again what is still there. It reads the last
    --most messages of each partition, which the memory has to hold, and says where
    that leaves some out: their counts are not compared.

    Ends with status 1 where a message is lost, doubled, somewhere else, failed, parked,
    or not checked, where counts do not agree, or a process is silent or none runs
    though there are messages to route.
    """
    return asyncio.run(_audit(at, rules, most))


async def _audit(at: RouterAt, given: tuple[str, ...], most: int) -> int:
    path, app = Path(at.name), at.app()
    topology = app.engine.topology
    log = await at.control().read(listen=True)
    known: dict[int, RuleSet] = {}
    wrongs, partly = list[str](), list[str]()
    for number, file in map(_version, given):
        rules = load_rules(Path(file), number)
        if (then := log.decided.get(number)) is not None:  # with who listened then
            rules = rules.with_endpoints(number, then.endpoints.values())
            if rules.digest != then.digest:
                wrongs.append(f"the tables of {printable(file)} are not those of rules {number}")
                continue
        known[number] = rules
    version = log.agreement.version
    if version and version not in known:
        current = load_rules(path, version).with_endpoints(
            version, log.agreement.endpoints.values()
        )
        if current.digest == log.agreement.digest:
            known[version] = current
            for number, then in list(log.decided.items())[
                -MOST_VERSIONS:
            ]:  # with who listened then
                made = current.with_endpoints(max(1, number), then.endpoints.values())
                if made.digest == then.digest:
                    known.setdefault(number, made)
        else:
            wrongs.append(f"the tables of {path} are not those of rules {version}; reload them")
    to = topology.routes[STAGE].to
    audit = RouteAudit(known, lambda each: endpoint_topic(to[each.destination], each))
    lag = await _read(app, topology, audit, most, wrongs, partly)
    wrongs += [f"process {each} is silent" for each in log.silent()]
    if lag and not log.agreement.processes:
        wrongs.append("no process runs, and there are messages to route")
    print("\n".join([*audit.lines(), *partly, *(f"WRONG: {each}" for each in wrongs)]))
    if lag:
        print(f"not consumed yet: {lag:,} messages")
    return (
        BAD_NEWS
        if wrongs or audit.wrong or audit.failed or audit.unchecked or audit.parked
        else DONE
    )


async def _read(
    app: App,
    topology: Topology,
    audit: RouteAudit,
    most: int,
    wrongs: list[str],
    partly: list[str],
) -> int:
    """Read all topics into the audit; returns how many messages are not consumed yet."""
    route = topology.routes[STAGE]
    async with AsyncExitStack() as stack:
        consumer = await connected_consumer(app)
        stack.push_async_callback(lambda: wait_for_stop(consumer.stop()))
        places = [
            TopicPartition(topic, number)
            for topic in route.topics
            for number in sorted(await partitions_of(consumer, topic))
        ]
        # First what is consumed, then what came of it: all of that is there, and maybe more.
        done: Mapping[Any, Committed] = await Offsets(app, app.engine.context.group).committed(
            places
        )
        firsts, ends = await consumer.beginning_offsets(places), await consumer.end_offsets(places)
        ranges = {
            place: range(max(firsts[place], done[place].offset - most), done[place].offset)
            for place in places
            if place in done
        }
        inside = {(*place,): span for place, span in ranges.items()}
        async for aside in _aside(app, route):
            if aside[2] in inside.get(aside[:2], ()):
                audit.set_aside(aside)
        destinations = {*route.to.values()}
        topics = [
            topic
            for topic in sorted(await consumer.topics())
            if topic == topology.malformed_topic
            or any(topic == to or topic.startswith(f"{to}.") for to in destinations)
        ]
        settings = await configs(app, [*route.topics, *topics])
        audit.compacted = {
            topic for topic, each in settings.items() if "compact" in each.get("cleanup.policy", "")
        }
        for topic in topics:
            refused = topic == topology.malformed_topic
            async for record in _all(consumer, topic, wrongs):
                take(audit, route, inside, record, refused=refused)
        for place, span in ranges.items():
            counts = audit.consumed, audit.failed
            consumer.assign([place])
            messages = [
                each
                async for some in read_range(consumer, place, span.start, span.stop)
                for each in some
            ]
            taken: IntakeCounts = done[place].taken
            audit.partition(messages, taken.rules or route.rules.number, parks=route.parks)
            found = audit.consumed - counts[0], audit.failed - counts[1]
            counts_all = not span.start and place.topic not in audit.compacted
            if counts_all and found != (taken.read, taken.malformed):
                wrongs.append(
                    f"{place.topic}/{place.partition}: (messages, failed) are {found} by the "
                    f"topics, and {(taken.read, taken.malformed)} as committed with the position"
                )
            if span.start:
                at = f"{place.topic}/{place.partition}"
                partly.append(
                    f"{at}: looked at from offset {span.start} on, and counts are not compared"
                )
                before = taken.malformed - found[1]
                if before > 0 and place.topic not in audit.compacted:
                    failed = counted(before, "message")
                    wrongs.append(f"{at}: {failed} failed before offset {span.start}")
        audit.left()
        return sum(ends[p] - (done[p].offset if p in done else firsts[p]) for p in places)


def take(
    audit: RouteAudit,
    route: Route,
    consumed: Mapping[Any, range],
    record: Any,
    *,
    refused: bool = False,
) -> None:
    """Tell an audit of a record.

    Args:
        audit: which.
        route: the stage, whose destinations others may write to as well.
        consumed: (topic, partition) → the offsets that are looked at.
        record: of a topic that it writes to.
        refused: whether that is the one of what failed.
    """
    headers, topic = dict(record.headers), record.topic
    place = _origin(headers.get(ORIGIN))
    if place is None or place[0] not in route.topics:
        if place is None and topic in route.to.values():
            audit.strange(topic, "without an origin")
        elif topic in route.to.values():
            audit.others[topic] += 1
    elif place[2] not in consumed.get(place[:2], ()):
        return
    elif refused:
        audit.refused(place)
    elif (version := headers.get(RULES_HEADER, b"")).isdigit():
        audit.made(place, topic, int(version), redriven=REDRIVEN in headers)
    else:
        audit.strange(topic, "without the version of its rules")


async def _aside(app: App, route: Route) -> AsyncIterator[Place]:
    """The places of what is parked."""
    if route.tables:
        async with DurableState(app) as durable:
            for table in route.tables:
                for number in range(route.partitions):
                    rows = await durable.rows(table.name, number, lambda key, _: key[:1] == b"b")
                    for key in rows:
                        yield table.topic, number, split_buffer_key(key)[1]


async def _all(consumer: Any, topic: str, wrongs: list[str]) -> AsyncIterator[Any]:
    for number in sorted(await partitions_of(consumer, topic)):
        place = TopicPartition(topic, number)
        consumer.assign([place])
        first = (await consumer.beginning_offsets([place]))[place]
        end = (await consumer.end_offsets([place]))[place]
        if first:
            wrongs.append(
                f"{topic}/{number} has lost its first {first} records: what is missing "
                "may have been there; look at the last messages by --most"
            )
        async for records in read_range(consumer, place, first, end):
            for record in records:
                yield record


def _origin(value: bytes | None) -> Place | None:
    try:
        topic, partition, offset, *_ = (value or b"").decode().split("/")
        return topic, int(partition), int(offset)
    except ValueError:
        return None


def _version(text: str) -> tuple[int, str]:
    number, equals, path = text.partition("=")
    if not (equals and number.isdecimal() and len(number) < 18):
        raise DeclarationError(f"--rules {text}: write N=FILE")
    return int(number), path
