"""Parts are killed at steps of the save store, for each pair of transports; faults are noticed."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from checkout.rabbitmq import RabbitMQ
from soak_segments.__main__ import WAYS, differences, run_round
from soak_segments.media import BATCH, MEDIA, FileMedium, StreamMedium
from soak_segments.part import Setting
from stores.segments.transports.rabbitmq import RabbitLogin
from stores.segments.transports.rabbitmq_streams import RabbitStreamOutbound
from tests.conftest import BrokerAddress
from tests.contracts.transports import PAIR, batch_of

STORES = ("rows, postgresql", "segments, sqlite", "rows, sqlite")
KINDS = [*MEDIA]
# Each one on each side twice; scripts/soak segments has all pairs.
PAIRS = [f"{one} → {(KINDS * 2)[n + m]}" for n, one in enumerate(KINDS) for m in (0, 1)]
SHORT = [f"{pair}, {STORES[n % 3]}" for n, pair in enumerate(PAIRS)]
SHORT += [way for way in WAYS if "two phases" in way]
RABBIT = [n for n, way in enumerate(SHORT) if "rabbitmq" in way]
pytestmark = pytest.mark.integration


def short_round(number: int, folder: Path, **servers: str) -> None:
    """The consumer and the publisher are killed at two steps each; all pairs have all of these."""
    assert SHORT[number] in WAYS
    done = run_round(servers, SHORT[number], folder, number, 4, 1 + number, stride=len(SHORT))
    assert sum(done.harms.values()) == 4


@pytest.mark.parametrize("number", sorted({*range(len(SHORT))} - {*RABBIT}))
def test_nothing_is_lost_or_repeated_whichever_step_dies(
    number: int, broker: BrokerAddress, tmp_path: Path
) -> None:
    short_round(number, tmp_path, kafka=broker.address)


@pytest.mark.parametrize("number", RABBIT)
def test_into_and_out_of_rabbitmq_only_what_is_in_doubt_comes_again(
    number: int, broker: BrokerAddress, rabbitmq_server: RabbitMQ, tmp_path: Path
) -> None:
    rabbits = {"rabbitmq": rabbitmq_server.url, "streams": str(rabbitmq_server.stream_port)}
    short_round(number, tmp_path, kafka=broker.address, **rabbits)


async def test_a_long_stream_is_read_to_its_end(
    rabbitmq_server: RabbitMQ, unique: Callable[[str], str], tmp_path: Path
) -> None:
    servers = {"rabbitmq": rabbitmq_server.url, "streams": str(rabbitmq_server.stream_port)}
    medium, name = StreamMedium(tmp_path, servers), unique("long")
    await asyncio.to_thread(medium.make, [name])
    values = [b"%d" % n for n in range(1_100)]
    outbound = RabbitStreamOutbound(RabbitLogin(rabbitmq_server.url), rabbitmq_server.stream_port)
    await outbound.start(PAIR)
    # A consumer that acknowledges nothing gets 1,000, and what was published with the last one.
    for at in range(0, len(values), BATCH):
        await outbound.publish(batch_of(values[at : at + BATCH], name, at + BATCH))
    await outbound.stop()
    got = await asyncio.to_thread(medium.got, name, "")
    assert [value.encode() for value, _ in got] == values


ALL = [(0, 0), (0, 1), (1, 0), (0, 2), (0, 3), (1, 1)]


@pytest.mark.parametrize(
    ("came", "wrong"),
    [
        (ALL, None),
        ([*ALL, (1, 1)], "1 messages came again"),
        (ALL[:-1], r"\[\] came, .*1,1.* were sent"),
        (ALL[::-1], r"0,3.*0,2.* came, .*0,0.* were sent"),
    ],
)
def test_what_is_wrong_is_noticed(
    came: list[tuple[int, int]], wrong: str | None, tmp_path: Path
) -> None:
    setting = Setting("files", "files", "files", "", tmp_path, {}, "x")
    for name in setting.destinations:
        lines = [line for each in came if name in (line := setting.value(*each))]
        (tmp_path / f"{name}+x.lines").write_text("\n".join(lines))
    found = [*differences(setting, {0: 4, 1: 2}, kills=9)]
    if wrong is None:
        assert found == []
    else:
        assert any(re.search(wrong, each) for each in found), found


def test_a_repetition_has_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting("files", "files", "files", "", tmp_path, {}, "x")
    monkeypatch.setattr(FileMedium, "repeats", 1)

    for ids, count in ((("i", "i"), 0), (("i", "j"), 1)):
        got = [(setting.value(0, 0), each) for each in ids]
        monkeypatch.setattr(FileMedium, "got", lambda *_, got=got: got if _[1] == "x-a" else [])
        assert len([*differences(setting, {0: 1}, kills=1)]) == count
