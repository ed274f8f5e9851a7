"""What an audit looks at, by which rules, and whose records they are."""

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition

from sequitur.route import auditing
from sequitur.route.auditing import take
from sequitur.route.control import Control, ControlLog
from sequitur.route.loading import load_rules
from sequitur.route.on_router import RouterAt
from topology import Record, Topology
from topology.engine.intake import IntakeCounts
from topology.faust.kafka.offsets import Committed
from topology.routing import Agreement, Endpoint, RoutedSource, Rule, RuleSet
from topology.routing.audit import RouteAudit

RULES = RuleSet(
    1,
    sources=[RoutedSource("in", ("all",))],
    rules=[Rule("all", to=("out",))],
    destinations={"out": None},
)
RULED = ("sequitur-rules", b"1")


def record(topic: str, offset: int, *headers: tuple[str, bytes]) -> Record:
    return Record(topic, 0, offset, None, b"x", headers)


def test_records_of_other_routers_are_not_wrong_and_those_of_nobody_are_one_line() -> None:
    route = Topology("t").route("router", rules=RULES)
    audit = RouteAudit({1: RULES}, lambda each: each.destination)
    consumed = {("in", 0): range(1)}
    take(audit, route, consumed, record("out", 0, ("sequitur-origin", b"in/0/0/7"), RULED))
    take(audit, route, consumed, record("out", 1, ("sequitur-origin", b"in/0/9/7"), RULED))
    for offset in range(2, 7):
        take(audit, route, consumed, record("out", offset, ("sequitur-origin", b"other/0/0/7")))
    take(audit, route, consumed, record("out.beside", 0))
    audit.partition([Record("in", 0, 0, None, b"x")], 1)
    audit.left()
    assert (audit.wrong, audit.routed) == (0, 1)
    assert "  out: 1, and 5 of others" in audit.lines()
    for offset in range(7, 4_000):
        take(audit, route, consumed, record("out", offset))
    assert [each for each in audit.lines() if "WRONG" in each] == [
        "WRONG: 3,993 records of out without an origin"
    ]


TABLES = """
[router]
name = "shop"
[source.in]
rules = ["large"]
[rule.large]
when = { key = "amount", over = LEAST }
to = "large"
[destination.large]
"""
IN, LARGE = TopicPartition("in", 0), TopicPartition("large", 0)


def tables(folder: Path, name: str, least: int) -> Path:
    file = folder / name
    file.write_text(TABLES.replace("LEAST", str(least)))
    return file


class Kafka:
    """Some topics, and what a group has committed of them, in the place of a broker."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, taken: IntakeCounts) -> None:
        self.topics: dict[TopicPartition, list[Record]] = {IN: [], LARGE: []}
        self.taken = taken
        self.log = ControlLog()
        for name in ("connected_consumer", "partitions_of", "read_range", "configs"):
            monkeypatch.setattr(auditing, name, getattr(self, name))
        monkeypatch.setattr(auditing, "Offsets", lambda app, group: self)
        monkeypatch.setattr(Control, "read", self.control)

    def add(self, topic: str, value: bytes, *headers: tuple[str, bytes]) -> None:
        records = self.topics.setdefault(TopicPartition(topic, 0), [])
        records.append(Record(topic, 0, len(records), None, value, headers))

    async def audit(self, file: Path, *rules: str, most: int = 1_000_000) -> int:
        return await auditing._audit(RouterAt(str(file), "127.0.0.1:9", None), rules, most)

    async def control(self, listen: bool) -> ControlLog:
        return self.log

    async def connected_consumer(self, app: Any) -> Any:
        async def nothing() -> None: ...

        return SimpleNamespace(
            topics=self.names,
            stop=nothing,
            assign=lambda places: None,
            beginning_offsets=self.beginning,
            end_offsets=self.ends,
        )

    async def names(self) -> set[str]:
        return {each.topic for each in self.topics}

    async def partitions_of(self, consumer: Any, topic: str) -> set[int]:
        return {0}

    async def beginning(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 0)

    async def ends(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {each: len(self.topics[each]) for each in places}

    async def committed(self, places: list[TopicPartition]) -> dict[TopicPartition, Committed]:
        return {each: Committed(len(self.topics[each]), self.taken) for each in places}

    async def configs(self, app: Any, names: list[str]) -> dict[str, dict[str, str]]:
        return {}

    async def read_range(
        self, consumer: Any, place: TopicPartition, start: int, end: int
    ) -> AsyncIterator[list[Record]]:
        yield self.topics[place][start:end]


async def test_what_is_not_looked_at_is_said_and_what_failed_there_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tables(tmp_path, "router.toml", 1_000)
    given = f"1={file}"
    kafka = Kafka(monkeypatch, IntakeCounts(read=4))
    for _ in range(4):
        kafka.add("in", b'{"amount": 5}')
    assert await kafka.audit(file, given) == 0
    assert "looked at" not in capsys.readouterr().out
    assert await kafka.audit(file, given, most=3) == 0
    assert "in/0: looked at from offset 1 on, and counts are not compared" in (
        capsys.readouterr().out
    )
    kafka.taken.malformed = 2
    assert await kafka.audit(file, given, most=3) == 1
    assert "WRONG: in/0: 2 messages failed before offset 1" in capsys.readouterr().out


async def test_rules_of_an_older_version_have_the_endpoints_that_were_registered_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, old = tables(tmp_path, "router.toml", 3_000), tables(tmp_path, "old.toml", 1_000)
    archive = {"archive": Endpoint("archive", "large")}
    kafka = Kafka(monkeypatch, IntakeCounts(read=2, rules=2))
    for number, at in ((2, old), (3, file)):
        rules = load_rules(at, number).with_endpoints(number, archive.values())
        agreed = Agreement(version=number, digest=rules.digest, endpoints=archive)
        kafka.log.decided[number] = kafka.log.agreement = agreed
    for offset in range(2):
        kafka.add("in", b'{"amount": 2000}')
        headers = ("sequitur-origin", b"in/0/%d" % offset), ("sequitur-rules", b"2")
        kafka.add("large", b"", *headers)
        if not offset:
            kafka.add("large.archive", b"", *headers)
    given = f"2={old}"
    assert await kafka.audit(file, given) == 1
    assert [each for each in capsys.readouterr().out.splitlines() if "WRONG" in each] == [
        "WRONG: in/0/1 is missing in large.archive, to which rules 2 send it"
    ]
    kafka.add("large.archive", b"", *headers)
    assert await kafka.audit(file, given) == 0
    capsys.readouterr()
    assert await kafka.audit(file, f"2={file}") == 1
    said = capsys.readouterr().out
    assert f"WRONG: the tables of {file} are not those of rules 2\n" in said
    assert "not routed again: 2 messages" in said
