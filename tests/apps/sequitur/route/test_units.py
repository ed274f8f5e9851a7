"""Units of work as commands: any number of processes, killed or ended, and each message once."""

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import aio_pika
import orjson
import pytest

from checkout.rabbitmq import RabbitMQ
from sequitur.cli.main import main
from sequitur.route.loading import load_units
from sequitur.route.pages import RoutePages
from sequitur.route.transports import RABBITMQ, Transport, open_transports
from sequitur.route.unit_commands import _again
from stores.db.engines import open_engine
from stores.inbox import Inbox
from stores.outbox import MessageLog, Outbox
from stores.segments import InboundMessage, SegmentError
from stores.segments.transports.kafka import KafkaInbound
from stores.segments.transports.rabbitmq import RabbitLogin
from tests.forked import spawned
from tests.stores.segments.spool_transport import SpoolInbound, SpoolOutbound
from topology.model.ending import end_tasks
from topology.model.errors import DeclarationError, Malformed

LINES = 1_000
ROUTER = """
[router]
name = "shop"
site = "berlin"
[units]
ledger = "sqlite:///FOLDER/ledger.db"
errors = { transport = "disk", destination = "errors", attempts = 1 }
lease = 1.0
batch = { count = 40, idle = 0.002 }
[transport.disk]
kind = "files"
folder = "."
[transport.other]
OTHER
[source.lines]
transport = "disk"
place = "lines.txt"
rules = ["even", "all"]
[rule.even]
when = { key = "even", equals = true }
to = "some"
[rule.all]
when = { key = "n", exists = true }
to = "all"
[destination.some]
transport = "disk"
address = "even-ones"
[destination.all]
transport = "other"
address = "QUEUE"
"""
SPOOL = f'kind = "{__name__}:spool"\nfolder = "FOLDER"'


def spool(folder: str) -> Transport:
    """A transport of one's own, by its name in the file."""
    return Transport(
        lambda topic, place, _: SpoolInbound(topic, Path(folder) / place),
        lambda router: SpoolOutbound(Path(folder)),
    )


def written(folder: Path, other: str = SPOOL, queue: str = "spool", **changes: str) -> Path:
    text = ROUTER.replace("OTHER", other).replace("FOLDER", str(folder)).replace("QUEUE", queue)
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    path = folder / "router.toml"
    path.write_text(text)
    return path


def lines(folder: Path, numbers: Sequence[int]) -> None:
    """Append them to the source."""
    content = (orjson.dumps({"n": n, "even": n % 2 == 0}) + b"\n" for n in numbers)
    with (folder / "lines.txt").open("ab") as file:
        file.write(b"".join(content))


def start(verb: str, router: Path, *more: str) -> "subprocess.Popen[bytes]":
    return spawned([sys.executable, "-m", "sequitur", "route", verb, str(router), *more])


@pytest.fixture
async def queue(rabbitmq_server: RabbitMQ, unique: Callable[[str], str]) -> str:
    name = unique("all")
    async with await RabbitLogin(rabbitmq_server.url).connect("test") as connection:
        await (await connection.channel()).declare_queue(name, durable=True)
    return name


async def in_queue(server: RabbitMQ, name: str) -> list[aio_pika.abc.AbstractIncomingMessage]:
    found = []
    async with await RabbitLogin(server.url).connect("test") as connection:
        queue = await (await connection.channel()).get_queue(name)
        while (message := await queue.get(no_ack=True, fail=False)) is not None:
            found.append(message)
    return found


async def test_whoever_is_killed_each_line_comes_in_order_and_only_a_queue_repeats_with_equal_ids(
    tmp_path: Path,
    rabbitmq_server: RabbitMQ,
    queue: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    part = LINES // 4
    lines(tmp_path, range(part))  # a part after each kill, so that there is always more to do
    router = written(tmp_path, 'kind = "rabbitmq"', queue)
    monkeypatch.setenv(RABBITMQ, rabbitmq_server.url)
    roles = (
        *(("consume",), ("consume",), ("publish", "--transport", "disk")),
        ("publish", "--transport", "other"),
    )
    running = [start(role[0], router, *role[1:]) for role in roles]
    units = load_units(router)
    chance, kills, deadline = random.Random(16), 0, time.monotonic() + 300

    def progress() -> tuple[int, int, int]:
        starts = sum(s.start for p in units.ledger.pairs() for s in units.ledger.chain(p).segments)
        return (
            units.ledger.positions("lines").get(0, 0),
            starts,
            sum(units.ledger.backlogs("lines").values()),
        )

    before = 0, 0, 0

    def size() -> int:
        return (tmp_path / "lines.txt").stat().st_size

    try:
        while (now := progress())[0] < size() or now[2] or kills < 3:
            assert time.monotonic() < deadline, f"{now} of {size()}, {kills} kills"
            assert [each.poll() for each in running] == [None] * len(running)
            if kills < 3 and now != before:
                victim = chance.randrange(len(roles))
                os.kill(running[victim].pid, signal.SIGKILL)
                running[victim].wait()
                running[victim] = start(roles[victim][0], router, *roles[victim][1:])
                kills += 1
                lines(tmp_path, range(kills * part, (kills + 1) * part))
            before = now
            time.sleep(chance.uniform(0.3, 0.8))
        for each in running:
            each.terminate()
        # -SIGTERM: one that was started a moment ago has not come to its own handler.
        assert {0} <= {each.wait(240) for each in running} <= {0, -signal.SIGTERM}
    finally:
        for each in running:
            each.kill()
            each.wait()
    even = [
        orjson.loads(line)["n"]
        for line in (tmp_path / "even-ones+lines.lines").read_bytes().splitlines()
    ]
    assert even == list(range(0, LINES, 2))
    found = await in_queue(rabbitmq_server, queue)
    once = {each.message_id: orjson.loads(each.body)["n"] for each in reversed(found)}
    assert list(dict.fromkeys(orjson.loads(each.body)["n"] for each in found)) == [*range(LINES)]
    assert len(once) == LINES, "what is repeated has the same id"
    assert all(each.headers["sequitur-rules"] == "1" for each in found)
    assert {each.delivery_mode for each in found} == {aio_pika.DeliveryMode.PERSISTENT}
    assert units.ledger.own_end("lines", "test") is not None, "SIGTERM lets go at once"


def damaged(folder: Path) -> tuple[Path, str]:
    """A router with one segment for its own transport whose first record is damaged."""
    lines(folder, range(4))
    router = written(folder)
    units = load_units(router)
    consumer = units.consumers("disk", "test")["lines"]

    async def consumed() -> None:
        while not await consumer.step():
            pass
        await consumer.stop()

    asyncio.run(consumed())
    (segment,) = [each for each in (folder / "segments").iterdir() if "+other+" in each.name]
    with segment.open("r+b") as file:
        file.seek(20)
        file.write(b"\xff")
    return router, segment.name


def test_damage_is_listed_and_skipped_for_a_reason_that_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    router, name = damaged(tmp_path)
    command = ["route", "segments", str(router)]
    assert main(command) == 1
    listed = {
        line.split("\t")[1]: line.split("\t") for line in capsys.readouterr().out.splitlines()
    }
    assert listed["other"][2] == name
    assert listed["other"][4:] == ["DAMAGED", "nobody"]
    assert listed["disk"][4].endswith("to publish")
    skip = [*command, "--skip", "lines", "--transport", "other"]
    assert main(skip) == 2, "it needs a reason"
    assert main([*skip, "--dry-run"]) == 0
    assert main(command) == 1, "nothing was done"
    assert main([*skip, "--reason", "a copy was lost, too"]) == 0
    capsys.readouterr()
    assert main(command) == 1, "nobody publishes what the other transport has"
    assert "DAMAGED" not in capsys.readouterr().out
    with sqlite3.connect(tmp_path / "ledger.db") as ledger:
        rows = ledger.execute("SELECT router, name, start, reason FROM sequitur_skipped_damage")
        assert rows.fetchall() == [("shop", name, 0, "a copy was lost, too")]
    assert main([*skip, "--reason", "again"]) == 2, "there is no damage any more"


def test_a_ledger_that_is_not_there_is_mistyped_and_nothing_is_well(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    router = written(tmp_path)
    for verb in ("segments", "parked"):
        assert main(["route", verb, str(router)]) == 2
        assert "there is no such file" in caplog.text
        caplog.clear()
    assert not (tmp_path / "ledger.db").exists()


def test_a_pair_that_stops_stops_no_other_and_goes_on_once_it_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    router, _ = damaged(tmp_path)
    units = load_units(router)
    (tmp_path / "spool").mkdir()

    async def once(transport: str) -> None:
        publisher = units.publishers(transport, "test")["lines"]
        try:
            while await publisher.step():
                pass
        finally:
            await publisher.stop()

    asyncio.run(once("disk"))
    assert len((tmp_path / "even-ones+lines.lines").read_bytes().splitlines()) == 2
    with pytest.raises(SegmentError, match="damaged"):
        asyncio.run(once("other"))


def test_what_a_message_becomes_names_the_rules_and_where_it_came_from(tmp_path: Path) -> None:
    units = load_units(written(tmp_path))
    headers = (("h", b"1"), ("sequitur-rules", b"0"), ("h", b"\xff"))
    value = b'{"n": 2, "even": true}'
    made = units.routing.route(InboundMessage("lines", 0, 7, 8, value, b"k", headers, "s", 3))
    assert [(each.transport, each.destination) for each in made] == [
        ("disk", "even-ones"),
        ("other", "spool"),
    ]
    own = (("sequitur-rules", b"1"), ("sequitur-origin", b"lines/0/7"))
    assert {each.headers for each in made} == {(headers[0], headers[2], *own)}
    assert {(each.key, each.stream, each.sequence) for each in made} == {(b"k", "s", 3)}
    assert units.routing.route(InboundMessage("lines", 0, 8, 9, b'{"even": false}')) == []
    with pytest.raises(Malformed):
        units.routing.route(InboundMessage("lines", 0, 9, 10, b"no JSON"))


def test_rules_see_when_a_message_was_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sent.py").write_text("def keys(message):\n    return {'n': message.timestamp}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    units = load_units(
        written(
            tmp_path,
            **{
                'rules = ["even", "all"]': 'module = "sent:keys"\nrules = ["all"]',
                "exists = true": "equals = 7",
            },
        )
    )
    for sent, went in ((7, ["spool"]), (0, [])):
        made = units.routing.route(InboundMessage("lines", 0, 7, 8, b"{}", time=sent))
        assert [each.destination for each in made] == went


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({'site = "berlin"': ""}, "its site"),
        ({'kind = "files"': 'kind = "fils"'}, "did you mean 'files'"),
        ({'folder = "."': 'folders = "."'}, "transport 'disk'.*folders"),
        ({"lease = 1.0": "leese = 1.0"}, "units.*leese"),
        ({"count = 40": "count = 0"}, "count is 0"),
        ({"idle = 0.002": 'idle = "soon"'}, "units: batch.idle: .*write a number and its unit"),
        ({"[rule.even]": '[rule.even]\nbroadcast = "site"'}, "reach nobody"),
        ({'transport = "other"': 'transport = "others"'}, "destination 'all'.*'others'"),
        ({'errors = { transport = "disk"': 'errors = { transport = "no"'}, "units: errors.*'no'"),
        ({"FOLDER": "", SPOOL: 'kind = "rabbitmq"'}, f"set {RABBITMQ}"),
    ],
)
def test_a_mistake_in_the_file_is_named(
    changes: dict[str, str], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(RABBITMQ, raising=False)
    other = changes.pop(SPOOL, SPOOL)
    changes.pop("FOLDER", None)
    with pytest.raises(DeclarationError, match=reason):
        load_units(written(tmp_path, other, **changes))


def test_a_day_that_looks_mistyped_is_refused_and_can_be_withdrawn(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    router = written(tmp_path, **{"lease = 1.0": "lease = 1.0\ndays = true"})
    units = load_units(router)
    assert units.days is not None
    units.days.know("lines", [0])
    with units.engine.begin() as connection:
        units.days.reach(connection, "lines", {0: "2013-01-31"})
    command = ["route", "end-of-day", str(router)]
    assert main([*command, "2031-01-31"]) == 2
    assert "more than a year behind 2013-01-31; give --force" in caplog.text
    assert main([*command, "2013-01-31", "--withdraw"]) == 2, "it needs a reason"
    assert main([*command, "2013-01-31", "--withdraw", "--reason", "mistyped"]) == 0
    assert units.days.state().open is None
    assert units.days.state().withdrawn == {"2013-01-31"}


def test_the_end_of_a_day_makes_no_ledger_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "elsewhere").mkdir()
    router = written(tmp_path, **{"lease = 1.0": "lease = 1.0\ndays = true"})
    router.write_text(router.read_text().replace(f"{tmp_path}/ledger.db", "ledger.db"))
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["route", "end-of-day", str(router), "2031-01-31"]) == 2
    assert "there is no such file" in caplog.text
    assert not [*(tmp_path / "elsewhere").iterdir()]


@pytest.mark.integration
def test_no_secret_is_on_a_command_line_or_in_an_error(tmp_path: Path) -> None:
    (tmp_path / "rabbit.url").write_text("amqp://me:geheim@127.0.0.1:9/\n")
    router = written(tmp_path, 'kind = "rabbitmq"\nurl = "@rabbit.url"', "q")
    lines(tmp_path, range(2))
    command = [sys.executable, "-m", "sequitur", "route", "publish", str(router)]
    consuming = start("consume", router)
    with subprocess.Popen(command, stderr=subprocess.PIPE) as publishing:
        shown = Path(f"/proc/{publishing.pid}/cmdline").read_bytes()
        assert publishing.stderr is not None
        for line in publishing.stderr:
            shown += line
            if b"starts over: RabbitMQ" in line:
                break
        publishing.terminate()
        shown += publishing.stderr.read()
    consuming.terminate()
    assert publishing.wait(240) == 0
    assert consuming.wait(240) in (0, -signal.SIGTERM), "it may have no handler yet"
    assert b"starts over: RabbitMQ" in shown
    assert b"geheim" not in shown


TWO_PHASE = """
[router]
name = "shop"
site = "berlin"
[units]
ledger = "sqlite:///FOLDER/shop.db"
errors = { transport = "stock", destination = "errors", attempts = 1 }
lease = 1.0
two_phase = true
[transport.orders]
kind = "sql"
database = "sqlite:///FOLDER/shop.db"
[transport.stock]
kind = "sql"
database = "sqlite:///FOLDER/shop.db"
inbox = "stock"
[source.placed]
transport = "orders"
rules = ["all"]
[rule.all]
when = { key = "n", exists = true }
to = "all"
[destination.all]
transport = "stock"
address = "placed"
"""


@pytest.mark.integration
def test_a_log_and_an_inbox_need_one_process_and_no_segments(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    router, log = tmp_path / "router.toml", MessageLog()
    router.write_text(TWO_PHASE.replace("FOLDER", str(tmp_path)))
    engine = open_engine(f"sqlite:///{tmp_path}/shop.db")
    log.create(engine)
    with engine.begin() as connection:
        for n in range(300):
            Outbox(log).capture(connection, "placed", f"s{n % 3}", "Placed", b'{"n": %d}' % n)
    process = start("consume", router)
    deadline = time.monotonic() + 120
    while True:
        with engine.connect() as connection:
            if not log.read_after(connection).messages:
                break
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.terminate()
    assert process.wait(240) == 0
    inbox = Inbox(engine, "stock", order="monotonic")
    with engine.connect() as connection, inbox.batch(connection, 500) as messages:
        assert [each.topic for each in messages] == ["placed"] * 300
    engine.dispose()
    assert main(["route", "publish", str(router)]) == 2
    assert "route consume publishes, too" in caplog.text
    assert main(["route", "segments", str(router)]) == 0


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            'kind = "sql"\ndatabase = "sqlite:///FOLDER/shop.db"\n[',
            'kind = "files"\n[',
            "source 'p",
        ),
        ('inbox = "stock"', '[transport.disk]\nkind = "files"', "transport 'disk' is not of kind"),
        ('shop.db"\ninbox', 'stock.db"\ninbox', "put the tables of both into one file"),
        ("two_phase = true", "two_phase = true\ndays = true", "days is of segments"),
        ("[rule.all]", '[source.more]\nrules = ["all"]\n[rule.all]', "a log has one reader"),
    ],
)
def test_what_no_transaction_holds_is_refused_at_load(
    old: str, new: str, reason: str, tmp_path: Path
) -> None:
    assert old in TWO_PHASE
    text = TWO_PHASE.replace(old, new).replace("FOLDER", str(tmp_path))
    if "disk" in new:
        text = text.replace('transport = "stock"\naddress', 'transport = "disk"\naddress')
    (tmp_path / "router.toml").write_text(text)
    with pytest.raises(DeclarationError, match=reason):
        load_units(tmp_path / "router.toml")


def test_two_sources_of_one_log_are_refused_with_segments_too(tmp_path: Path) -> None:
    text = TWO_PHASE.replace("two_phase = true\n", "").replace("FOLDER", str(tmp_path))
    text = text.replace("[rule.all]", '[source.more]\nrules = ["all"]\n[rule.all]')
    (tmp_path / "router.toml").write_text(text)
    with pytest.raises(DeclarationError, match="a log has one reader"):
        load_units(tmp_path / "router.toml")


KAFKA = 'kind = "kafka"\nbroker = "127.0.0.1:9"'
QUEUES = 'kind = "rabbitmq"\nurl = "amqp://127.0.0.1:9"'
STREAMS = QUEUES.replace("rabbitmq", "rabbitmq-stream")


@pytest.mark.parametrize(
    ("one", "other", "address", "errors", "what"),
    [
        (KAFKA, KAFKA, "in", "errors", "destination 'out': 'in'"),
        (KAFKA, KAFKA, "out", "in", "units: errors: 'in'"),
        (QUEUES, QUEUES, "in", "errors", "destination 'out': 'in'"),
        (STREAMS, STREAMS, "in", "errors", "destination 'out': 'in'"),
        (KAFKA, KAFKA.replace(":9", ":10"), "in", "errors", None),
        (KAFKA, QUEUES, "in", "errors", None),
        (QUEUES, f'{QUEUES}\nexchange = "fleet"', "in", "errors", None),
        ('kind = "files"', 'kind = "files"', "in", "errors", None),
    ],
)
def test_a_source_that_the_router_itself_feeds_is_refused(
    one: str, other: str, address: str, errors: str, what: str | None, tmp_path: Path
) -> None:
    (tmp_path / "router.toml").write_text(
        f"""
[router]
name = "shop"
site = "berlin"
[units]
ledger = "sqlite:///{tmp_path}/ledger.db"
errors = {{ transport = "other", destination = "{errors}" }}
[transport.one]
{one}
[transport.other]
{other}
[source.in]
rules = ["all"]
[rule.all]
to = "out"
[destination.out]
transport = "other"
address = "{address}"
"""
    )
    if what is None:
        load_units(tmp_path / "router.toml").engine.dispose()
    else:
        with pytest.raises(DeclarationError, match=f"{what} is a source; that has no end"):
            load_units(tmp_path / "router.toml")


def test_times_of_a_batch_are_seconds_or_durations(tmp_path: Path) -> None:
    units = load_units(written(tmp_path, **{"idle = 0.002": 'idle = "1s", seconds = 2'}))
    limits = units._limits
    assert (limits.count, limits.idle, limits.seconds) == (40, 1.0, 2.0)
    rabbit = {"kind": "rabbitmq", "url": "amqp://127.0.0.1:9", "heartbeat": "20s"}
    server: Any = open_transports({"rabbit": rabbit}, tmp_path)["rabbit"].server
    assert server.heartbeat == 20
    with pytest.raises(DeclarationError, match=r"heartbeat: .*write a number and its unit"):
        open_transports({"rabbit": {**rabbit, "heartbeat": "soon"}}, tmp_path)


def test_each_router_tells_a_group_of_its_own_in_kafka(tmp_path: Path) -> None:
    kafka = f'{KAFKA}\n[source.in]\ntransport = "other"\nrules = ["all"]'
    inbound = load_units(written(tmp_path, kafka)).inbound("in")
    assert isinstance(inbound, KafkaInbound)
    assert inbound._group == "shop.units"


async def test_pages_name_what_fails_and_what_is_published(tmp_path: Path) -> None:
    lines = b"".join(b"%s\n" % orjson.dumps({"n": n, "even": n % 2 == 0}) for n in range(10))
    lines += b'{"even": false}\n' * 3
    (tmp_path / "lines.txt").write_bytes(lines)
    units = load_units(written(tmp_path))
    works = {**units.consumers("disk", "me")}
    pages = RoutePages(units, works, None)
    work = works["lines"]
    assert await work.step() == 13
    await pages.measure()
    assert await pages.troubles() == []
    found = {
        " ".join((sample.name, *sample.labels.values())): sample.value
        for family in pages.registry.collect()
        for sample in family.samples
    }
    assert found["sequitur_route_messages_total lines consumed"] == 13
    assert found["sequitur_route_messages_total lines unrouted"] == 3
    assert found["sequitur_route_state lines owns"] == 1
    assert found["sequitur_route_state lines failing"] == 0
    assert found["sequitur_route_backlog_bytes lines other"] > 0
    assert found["sequitur_route_batch_seconds_count lines"] == 1
    await work.stop()
    for segment in (tmp_path / "segments").rglob("*"):
        if segment.is_file():
            segment.write_bytes(b"\xff" * segment.stat().st_size)
    publishers = {**units.publishers("other", "me")}
    pages = RoutePages(units, publishers, None)
    running = asyncio.create_task(_again(publishers["lines"]))
    async with asyncio.timeout(60):
        while publishers["lines"].failing is None:
            await asyncio.sleep(0.01)
    (trouble,) = await pages.troubles()
    assert trouble.startswith("lines: ")
    assert "damaged" in trouble
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    units.engine.dispose()


class FailingWork:
    """Work that ends in something else each time, and then goes on."""

    def __init__(self, *errors: BaseException) -> None:
        self.failing: str | None = None
        self.errors, self.goes_on = [*errors], asyncio.Event()

    async def run(self, *, pause: float) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.goes_on.set()
        await asyncio.Event().wait()


async def test_whatever_ends_a_topic_s_work_it_begins_again_until_it_is_told_to_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sequitur.route.unit_commands.STOPPED", 0.0)
    work: Any = FailingWork(ValueError("a fault"), SystemExit(3), asyncio.CancelledError())
    running = asyncio.create_task(_again(work))
    await asyncio.wait_for(work.goes_on.wait(), 60)
    assert "CancelledError" in work.failing
    await end_tasks(running)
    assert running.cancelled()
