"""`sequitur replay`: capture what is published, and find it again."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from sequitur.cli.group import Group
from sequitur.cli.options import COUNT, FILE, PERIOD, metrics_option, properties_option
from sequitur.cli.running import run_until_stopped
from sequitur.cli.statuses import BAD_NEWS, DONE
from sequitur.kafka.login import kafka_login
from sequitur.replay.process import in_one_line
from sequitur.replay.query_options import (
    as_json,
    line_of,
    moment,
    print_json,
    query_options,
    say_holes,
)
from sequitur.replay.replay_file import ReplayFile
from sequitur.replay.server.commands import COMMANDS
from stores.replay import Query, ReplayError
from topology.model.collector import collect_seldom
from topology.model.printable import printable

logger = logging.getLogger("replay")
_file = click.argument("file", type=FILE)
_as_json = click.option("--json", "json", is_flag=True, help="As JSON.")


@click.group("replay", cls=Group)
def command() -> None:
    """Capture what is published, find it, and publish it again.

    \b
    sequitur replay capture replay.toml
    sequitur replay count replay.toml --topic moves --where tail=N102UW

    FILE names the log, what is captured, and the fields that queries find by.
    """


@command.command()
@_file
@properties_option
@click.option("--check", is_flag=True, help="Check the file, and end.")
@metrics_option
def capture(file: Path, kafka_properties: Path | None, check: bool, metrics: str | None) -> int:
    """Keep every message of the topics that FILE names, exactly once.

    New topics that match a pattern are noticed. Start any number: one of them
    captures a topic, the others stand by.
    """

    def run(found: ReplayFile) -> int:
        from sequitur.replay.capture import Capture
        from sequitur.replay.pages import CapturePages

        kafka = kafka_login(found.replay.broker, kafka_properties)
        if not found.replay.topics:
            raise ReplayError(f'{file}: name what is captured: topics = ["orders.*"]')
        if check:
            print(f"{file}: {', '.join(found.replay.topics)}")
            return DONE
        work = Capture(found, kafka)
        collect_seldom()

        async def capturing(stopped: asyncio.Event) -> None:
            async with CapturePages(work, kafka, found.engine()).at(metrics):
                await work.run(stopped)

        return run_until_stopped(capturing)

    return in_one_line(run, file)


@command.command()
@_file
@click.argument("topic")
@properties_option
def anew(file: Path, topic: str, kafka_properties: Path | None) -> int:
    """Capture a TOPIC from its beginning that was deleted and made again.

    What was captured of the former one stays, so that a position of it may be there
    twice: of each.
    """

    def run(found: ReplayFile) -> int:
        from sequitur.replay.capture import begin_anew

        kafka = kafka_login(found.replay.broker, kafka_properties)
        asyncio.run(begin_anew(found, kafka, topic))
        print(f"{printable(topic)} is captured from its beginning")
        return DONE

    return in_one_line(run, file)


@command.command()
@_file
@query_options
@_as_json
def count(file: Path, query: Callable[[], Query], json: bool) -> int:
    """Count the messages that a query finds."""

    def run(found: ReplayFile) -> int:
        log, asked = found.existing_log(), query()
        number, holes = log.count(asked), log.holes(asked)
        if json:
            print_json({"messages": number, "through": log.end(), "gone": list(map(str, holes))})
        else:
            print(number)
            say_holes(holes)
        return DONE

    return in_one_line(run, file)


@command.command("list")
@_file
@query_options
@click.option("--limit", type=COUNT, default=20, show_default=True)
@_as_json
def list_messages(file: Path, query: Callable[[], Query], limit: int, json: bool) -> int:
    """List messages in the log's order: id, time, position, stream, size, fields.

    --after ID goes on behind the last one that was shown.
    """

    def run(found: ReplayFile) -> int:
        log, asked, left = found.existing_log(), query(), limit
        while left:
            page = log.page(asked, min(left, 1_000), content=False)
            for each in page.messages:
                if json:
                    print_json(as_json(each, content=False))
                else:
                    print(line_of(each))
            left -= len(page.messages)
            if page.after is None:
                break
            asked = replace(asked, after=page.after)
        return DONE

    return in_one_line(run, file)


@command.command()
@_file
@click.argument("id", type=COUNT)
@_as_json
@click.option("--content", is_flag=True, help="Only the content, byte by byte.")
def show(file: Path, id: int, json: bool, content: bool) -> int:
    """Show the message with an ID."""

    def run(found: ReplayFile) -> int:
        message = found.existing_log().message(id)
        if message is None:
            raise ReplayError(f"there is no message {id}, or retention took it")
        if content:
            click.get_binary_stream("stdout").write(message.value or b"")
        elif json:
            print_json(as_json(message))
        else:
            shown: dict[str, Any] = as_json(message)
            shown |= {"time": moment(message.time), "captured": moment(message.captured)}
            for name, value in shown.items():
                print(f"{name}: {printable(value, 4_000)}")
        return DONE

    return in_one_line(run, file)


@command.command()
@_file
@click.option("--keep", type=PERIOD, required=True, help="What was captured since then.")
@click.option("--dry-run", is_flag=True, help="Say what would go, and do nothing.")
def retain(file: Path, keep: float, dry_run: bool) -> int:
    """Drop what was captured longer ago, in whole days."""

    def run(found: ReplayFile) -> int:
        gone = found.existing_log().retain(keep, dry_run=dry_run)
        for each in gone:
            print(f"{'would drop' if dry_run else 'dropped'} {printable(each, 200)}")
        return DONE

    return in_one_line(run, file)


@command.command()
@_file
@_as_json
def fields(file: Path, json: bool) -> int:
    """List the fields that queries find by, and the topics.

    It ends with status 1 where something of a topic is gone.
    """

    def run(found: ReplayFile) -> int:
        log = found.existing_log()
        declared = {name: kind.value for name, kind in log.declared().items()}
        topics, holes = log.topics(), log.holes(Query())
        if json:
            print_json({"fields": declared, "topics": topics, "gone": list(map(str, holes))})
        else:
            for name, kind in declared.items():
                print(f"field {name}: {kind}")
            for topic in topics:
                places = ", ".join(f"{n} to {at}" for n, at in log.positions(topic).items())
                print(f"topic {printable(topic)}: {places}")
            say_holes(holes)
        return BAD_NEWS if holes else DONE

    return in_one_line(run, file)


for each in COMMANDS:
    command.add_command(each)
