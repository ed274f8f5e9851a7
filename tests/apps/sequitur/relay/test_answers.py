"""Who misses messages is told what the log knows, a bounded part at a time."""

import pytest
from sqlalchemy import Engine

from sequitur.cli.main import main
from sequitur.relay import answers
from sequitur.relay.answers import Answering
from sequitur.relay.link import MissingRange
from stores.locks.lease import LEASES, Lease
from stores.outbox.capture import Outbox
from stores.outbox.log import MessageLog
from stores.outbox.message import Draft
from stores.outbox.retention import RetentionStore

GUID = "0b0c7a4e-6d6e-4a5c-9a5e-1f1d2c3b4a59"


def keep(engine: Engine, stream: str, number: int, content: bytes = b"x") -> RetentionStore:
    """Messages that were acknowledged, and are kept."""
    log, kept = MessageLog(), RetentionStore(engine, MessageLog(), 600)
    with engine.begin() as connection:
        kept.make(connection)
        Outbox(log).capture_many(connection, [Draft("orders", stream, None, content)] * number)
        ids = [each.id for each in log.read_stream(connection, "orders", stream)]
        kept.keep(connection, ids)
        log.delete(connection, ids)
    return kept


@pytest.mark.parametrize(
    "written", [GUID, GUID.upper(), f"{{{GUID}}}", f"{{{GUID.upper()}}}", f"urn:uuid:{GUID}"]
)
def test_a_guid_is_found_however_its_producer_writes_it(engine: Engine, written: str) -> None:
    """A view asks for a stream as its inspector normalised it."""
    answering = Answering(engine, MessageLog(), keep(engine, written, 3))
    answering.ask([MissingRange("orders", GUID, 2, 3)])
    ((_, known),) = answering.look()
    assert [(each.stream, each.sequence) for each in known.messages] == [(written, 2), (written, 3)]


def test_no_more_is_found_at_once_than_fits(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "BYTES_AT_ONCE", 5_000)
    answering = Answering(engine, MessageLog(), keep(engine, "a", 20, b"x" * 1000))
    asked = [MissingRange("orders", "a", at, 20) for at in range(1, 6)]
    answering.ask(asked)
    ((first, known),) = answering.look()
    assert first == asked[0]
    assert [each.sequence for each in known.messages] == [1, 2, 3, 4, 5]
    assert list(answering.asked) == asked[1:], "the rest is found by the next look"


def test_status_tells_what_waits_and_who_leads(
    engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    url = engine.url.render_as_string(hide_password=False)
    assert main(["relay", "status", "--database", url]) == 0
    assert capsys.readouterr().out == "relay sequitur: no relay has led yet\nnothing waits\n"
    with engine.begin() as connection:
        Outbox(MessageLog()).capture_many(connection, [Draft("orders", "a", None, b"")] * 3)
    assert main(["relay", "status", "--database", url]) == 1, "they wait, and for nobody"
    capsys.readouterr()
    lease = Lease(engine, "relay sequitur", "host/1")
    lease.make()
    epoch = lease.acquire()
    assert epoch is not None
    assert main(["relay", "status", "--database", url]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "relay sequitur: host/1 leads, in turn 1"
    assert second.startswith("topic orders: 3 messages wait, the oldest for ")
    hour = LEASES.update().values(until=LEASES.c.until + 3_600_000)
    with engine.begin() as connection:
        connection.execute(hour)  # as when the database's clock was set back
    assert main(["relay", "status", "--database", url]) == 1
    assert "host/1 led, and no relay leads now, in turn 1" in capsys.readouterr().out
    assert main(["relay", "status", "--database", url, "--lease", "1h"]) == 0
    capsys.readouterr()
    lease.release(epoch)
    assert main(["relay", "status", "--database", url]) == 1
    assert "host/1 led, and no relay leads now, in turn 1" in capsys.readouterr().out
    with engine.begin() as connection:
        drafts = [Draft(f"topic{n}", "a", None, b"") for n in range(100)]
        Outbox(MessageLog()).capture_many(connection, drafts)
    assert main(["relay", "status", "--database", url]) == 1
    *lines, last = capsys.readouterr().out.splitlines()
    assert (len(lines), last) == (101, "and more topics, with no more messages each")
