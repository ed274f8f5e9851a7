"""`sequitur route`: check rules, say where a message goes and why, try them, compare versions."""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click
import orjson
from rich.console import Console
from rich.table import Table

from sequitur.cli.group import Group
from sequitur.cli.options import BROKER, COUNT, FILE, properties_option
from sequitur.cli.statuses import BAD_NEWS, DONE
from sequitur.route.auditing import audit
from sequitur.route.control_commands import (
    formats,
    register,
    reload,
    serve,
    status,
    trails,
    unregister,
)
from sequitur.route.listen_command import listen
from sequitur.route.loading import load_rules
from sequitur.route.messages import of_file, of_topic
from sequitur.route.on_router import in_one_line
from sequitur.route.parked_commands import parked, redrive, unpark
from sequitur.route.router_file import source_login
from sequitur.route.unit_commands import consume, end_of_day, publish, segments
from topology.model.counted import counted
from topology.model.errors import DeclarationError
from topology.model.event import Message
from topology.model.printable import printable
from topology.routing import RuleSet, compare
from topology.routing.transformations import known


@click.group("route", cls=Group)
def command() -> None:
    """Check rules of routing, try them, compare them, and run them.

    \b
    sequitur route explain rules.toml message.json
    """


for each in (
    serve,
    reload,
    status,
    audit,
    formats,
    trails,
    register,
    unregister,
    listen,
    parked,
    redrive,
    unpark,
    consume,
    publish,
    segments,
    end_of_day,
):
    command.add_command(each)


Login = Callable[[Path, str], Mapping[str, Any]]
"""How to reach Kafka, of the file with the rules and a topic."""


def _kafka(function: Callable[..., int]) -> Callable[..., int]:
    """Say how to reach Kafka."""

    @properties_option
    @click.option(
        "--broker", type=BROKER, help="Kafka; default: that of the file, else SEQUITUR_BROKER."
    )
    @wraps(function)
    def run(broker: str | None, kafka_properties: Path | None, **given: Any) -> int:
        login = partial(source_login, broker=broker, properties=kafka_properties)
        return function(login=login, **given)

    return run


_source = click.option("--source", help="Topic that messages of a file come from.")


def _tried(
    versions: Sequence[RuleSet],
    topic: str | None,
    file: Path | None,
    source: str | None,
    login: Callable[[str], Mapping[str, Any]],
    most: int,
) -> Iterable[Message]:
    """The messages of a topic, or of a file. Raises DeclarationError unless one is named."""
    if topic is not None and file is None:
        return asyncio.run(of_topic(login(topic), _source_of(versions, topic, "--from"), most))
    if file is None or topic is not None:
        raise DeclarationError("name a topic by --from, or a file")
    return of_file(file, _source_of(versions, source))


@command.command()
@in_one_line
@click.argument("rules", type=FILE)
def check(rules: Path) -> int:
    """Check RULES and the tables that they name."""
    found = load_rules(rules)
    parts = {"source": found.sources, "rule": found.rules, "destination": found.destinations}
    has = ", ".join(counted(len(part), name) for name, part in parts.items())
    print(f"{rules}: {has}; digest {found.digest[:12]}")
    return DONE


@command.command()
@in_one_line
@click.argument("rules", type=FILE)
@click.argument("message", type=FILE, required=False)
@_source
@click.option("--at", metavar="TOPIC/PARTITION/OFFSET", help="The message, in Kafka.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@_kafka
def explain(
    rules: Path,
    message: Path | None,
    source: str | None,
    at: str | None,
    as_json: bool,
    login: Login,
) -> int:
    """Say where a message goes, and why each rule fired or not.

    The MESSAGE is a file, or - for standard input.
    """
    found = load_rules(rules)
    if (message is None) == (at is None):
        raise DeclarationError("name a file with the message, or its place in Kafka by --at")
    if at is not None:
        topic, partition, offset = _place(at)
        (one,) = asyncio.run(of_topic(login(rules, topic), topic, 1, (partition, offset)))
    else:
        assert message is not None
        (one,) = of_file(message, _source_of([found], source), whole=True)
    routing = found.tried(one, "all")
    print(_json(routing.as_dict()) if as_json else routing)
    return DONE if routing.reason is None else BAD_NEWS


@command.command("dry-run")
@in_one_line
@click.argument("rules", type=FILE)
@click.argument("messages", type=FILE, required=False)
@click.option("--from", "topic", help="Topic whose messages are tried, instead of a file's.")
@_source
@click.option("--most", type=COUNT, default=1_000, show_default=True, help="Lines that are shown.")
@_kafka
def dry_run(
    rules: Path,
    messages: Path | None,
    topic: str | None,
    source: str | None,
    most: int,
    login: Login,
) -> int:
    """Route a file's lines, or the first --most of each partition of a topic, and show where.

    It ends with status 1 where a message fails.
    """
    found = load_rules(rules)
    tried = _tried([found], topic, messages, source, partial(login, rules), most)
    table = Table("line", "goes to", box=None, pad_edge=False)
    goes: Counter[str] = Counter()
    failed = 0
    for each in tried:
        routing = found.tried(each)
        failed += routing.reason is not None
        goes.update(routing.destinations or (("failed",) if routing.reason else ("nowhere",)))
        where = ", ".join(routing.destinations) or "nowhere"
        if routing.reason is not None:
            where = f"failed: {printable(routing.reason, 400)}"
        if topic is not None:
            table.add_row(f"{each.partition}/{each.offset}", where)
        elif each.offset < most:
            table.add_row(str(each.offset + 1), where)
    console = Console(file=sys.stdout, highlight=False, markup=False, soft_wrap=True)
    console.print(table)
    for name, count in goes.most_common() or [("messages", 0)]:
        print(f"{count:>9,} {name}")
    return BAD_NEWS if failed else DONE


@command.command("compare")
@in_one_line
@click.argument("old", type=FILE)
@click.argument("new", type=FILE)
@click.option("--from", "topic", help="Topic whose messages are tried.")
@click.option("--file", type=FILE, help="File whose lines are tried.")
@_source
@click.option("--most", type=COUNT, default=10_000, show_default=True, help="Of each partition.")
@click.option("--examples", type=click.IntRange(0, 100), default=3, show_default=True)
@_kafka
def compare_rules(
    old: Path,
    new: Path,
    topic: str | None,
    file: Path | None,
    source: str | None,
    most: int,
    examples: int,
    login: Login,
) -> int:
    """Say which messages would go elsewhere by NEW rules than by OLD ones.

    It ends with status 1 where one would.
    """
    before, after = load_rules(old, 1), load_rules(new, 2)
    messages = _tried([before, after], topic, file, source, partial(login, old), most)
    found = compare(before, after, messages, examples)
    print(found)
    for pair in found.examples:
        print(f"\nby {old}:\n{pair[0]}\nby {new}:\n{pair[1]}")
    return BAD_NEWS if found.elsewhere else DONE


def _json(data: Any) -> str:
    return orjson.dumps(data, default=str, option=orjson.OPT_INDENT_2).decode()


def _source_of(versions: Sequence[RuleSet], given: str | None, option: str = "--source") -> str:
    """The source that is named, of any version, or the only one of the first."""
    if given is not None:
        known(given, {name: None for each in versions for name in each.sources}, option, "source")
        return given
    names = [*versions[0].sources]
    if len(names) != 1:
        raise DeclarationError(f"name the topic by --source: {', '.join(names)}")
    return names[0]


def _place(text: str) -> tuple[str, int, int]:
    topic, _, rest = text.partition("/")
    partition, _, offset = rest.partition("/")
    if not (topic and partition.isdecimal() and offset.isdecimal()):
        raise DeclarationError(f"--at {printable(text)}: write TOPIC/PARTITION/OFFSET")
    return topic, int(partition), int(offset)
