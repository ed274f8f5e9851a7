"""`sequitur sites` between two brokers: forwarders are killed, a site taken over and returned."""

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import ANY, AsyncMock

import orjson
import pytest
from aiokafka import AIOKafkaProducer

from sequitur.cli.main import main
from stores.sites import Site
from stores.sites.copy_writer import CopyWriter
from stores.sites.fences import fences_of
from stores.sites.site import SITES
from tests.forked import ForkedWorker
from tests.stores.sites.test_forwarding import publish, read

pytestmark = pytest.mark.integration


@pytest.fixture
def file(
    sites: tuple[Site, Site], everywhere: Callable[..., str], tmp_path: Path
) -> Callable[[str], tuple[Path, str]]:
    """own → its file, and the topic."""
    topic = everywhere()

    def make(own: str) -> tuple[Path, str]:
        path = tmp_path / f"{own}.toml"
        # Brokers of other sessions have forwarded under these names to the one of all tests.
        tables = [
            f'[site.{site.name}]\nbroker = "{site.kafka["bootstrap_servers"]}"\n'
            f'cluster = "{asyncio.run(site.identify())}"'
            for site in sites
        ]
        path.write_text("\n".join([f'own = "{own}"', f'topics = ["{topic}"]', *tables]))
        return path, topic

    return make


def forwarder(path: Path) -> tuple[ForkedWorker, Callable[[], bool]]:
    """A process, and whether it forwards by now."""
    words, log = ["sequitur", "sites", "forward", str(path)], path.with_suffix(".log")
    before = log.stat().st_size if log.exists() else 0
    running = ForkedWorker(words, dict(os.environ), log)
    return running, lambda: b": forwarding\n" in log.read_bytes()[before:]


def wait_for(holds: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.1)


def test_forwarders_that_are_killed_at_any_moment_copy_each_message_once(
    sites: tuple[Site, Site], file: Callable[[str], tuple[Path, str]]
) -> None:
    newark, kennedy = sites
    path, topic = file("newark")
    draw, count, kills = random.Random(16), 6_000, 3

    async def send() -> None:
        async with AIOKafkaProducer(**newark.kafka) as producer:
            for n in range(count):
                await producer.send(topic, b"%d" % n, partition=0)

    running, forwards = forwarder(path)
    try:
        asyncio.run(send())
        for _ in range(kills):
            wait_for(forwards)
            time.sleep(draw.uniform(0, 0.15))
            running.kill()
            running.wait(240)
            running, forwards = forwarder(path)
        wait_for(lambda: main(["sites", "gaps", str(path)]) == 0)
        wait_for(forwards)  # it heeds SIGTERM
        running.send_signal(signal.SIGTERM)
        assert running.wait(240) == 0
    finally:
        running.kill()
    found = asyncio.run(read(kennedy, topic))
    id = asyncio.run(newark.identify())
    assert found == [(id, str(n)) for n in range(count)]


def test_a_site_is_taken_over_and_returned_on_record(
    sites: tuple[Site, Site],
    file: Callable[[str], tuple[Path, str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    newark, kennedy = sites
    here, topic = file("newark")
    there, _ = file("kennedy")

    def said(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        status = main(["sites", *words])
        return status, capsys.readouterr().out

    running, _ = forwarder(there)
    try:
        asyncio.run(publish(kennedy, topic, "a b"))
        wait_for(lambda: said("lag", str(there))[0] == 0)
        id = asyncio.run(kennedy.identify())

        def fences() -> list[Any]:
            return fences_of(asyncio.run(newark.rows(SITES)), id)

        epoch = 1 + max([0, *(fence.epoch for fence in fences())])
        words = (str(here), "kennedy", "--reason", "power is out")
        dry = said("takeover", *words, f"--epoch={epoch}", "--dry-run")
        assert dry == (0, f"would fence kennedy, cluster {id}, in epoch {epoch}\n")
        assert said("takeover", *words, f"--epoch={epoch}")[0] == 0
        assert (fences()[-1].reason, fences()[-1].fenced) == ("power is out", True)
        status, text = said("status", str(here))
        assert status == 1
        assert "kennedy was taken over in epoch" in text
        asyncio.run(publish(kennedy, topic, "c"))
        status, text = said("lag", str(there), "--json")
        assert status == 1
        assert (
            sum(each["messages"] for each in orjson.loads(text)["behind"] if not each["site"]) == 1
        )
        status, text = said("gaps", str(here))
        assert status == 1
        assert f"newark lacks 1 of kennedy's {topic}/0" in text, "gaps names what is missing"
        for more in ((), ("--dry-run",)):
            again = said("return", *words, f"--epoch={epoch}", *more)
            assert again[0] == 2, "the epoch is not above the last"
        status, text = said("return", *words, f"--epoch={epoch + 1}")
        assert status == 0
        assert "to be merged: newark lacks 1 of kennedy's" in text
        wait_for(lambda: said("gaps", str(here)) == (0, "none\n"))
        assert said("status", str(here))[0] == 0
        name = "sequitur.sites.looking.what_stands_still"
        monkeypatch.setattr(name, AsyncMock(return_value=["it stands still"]))
        assert said("status", str(here)) == (1, ANY)
        words = (str(there), "--peer=newark", f"--topic={topic}", "--reason=none")
        assert said("accept-loss", *words, "--dry-run")[0] == 0
    finally:
        running.kill()
    assert asyncio.run(read(newark, topic)) == [(id, word) for word in "abc"]


def test_gaps_names_what_was_given_up_and_two_names_of_one_site(
    sites: tuple[Site, Site],
    file: Callable[[str], tuple[Path, str]],
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    newark, kennedy = sites
    path, topic = file("newark")

    async def give_up() -> None:
        writer = CopyWriter(kennedy, await newark.identify(), topic)
        await writer.start()
        said = {"by": "me", "reason": "too old", "at": 0.0}
        await writer.write((), {}, {("loss", writer.cluster, topic, 0, 3, 5): said})
        await writer.stop()

    assert main(["sites", "gaps", str(path)]) == 0
    assert capsys.readouterr().out == "none\n"
    asyncio.run(give_up())
    assert main(["sites", "gaps", str(path)]) == 0
    given_up = f"kennedy lacks newark's {topic}/0, offsets 3 to 5, given up by me: too old"
    assert capsys.readouterr().out == f"{given_up}\nnone but what was given up\n"
    broker = kennedy.kafka["bootstrap_servers"]
    path.write_text(path.read_text() + f'\n[site.idlewild]\nbroker = "{broker}"\n')
    assert main(["sites", "gaps", str(path)]) == 2
    assert "sites kennedy and idlewild are the same cluster" in caplog.text


def test_a_site_whose_name_another_cluster_has_by_now_is_taken_over_by_its_id(
    sites: tuple[Site, Site],
    file: Callable[[str], tuple[Path, str]],
    unique: Callable[[str], str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    newark, kennedy = sites
    path, topic = file("newark")
    before, name = unique("idlewild"), unique("name")

    async def forwarded() -> str:
        writer = CopyWriter(newark, before, topic)
        await writer.start()
        await writer.write((), {}, {("name", before): name})
        await writer.stop()
        return await kennedy.identify()

    now = asyncio.run(forwarded())
    path.write_text(path.read_text().replace("[site.kennedy]", f"[site.{name}]"))
    renamed = path.read_text()
    words = ["sites", "takeover", str(path), name, "--epoch=1", "--reason=lost"]
    path.write_text(renamed.replace(f'cluster = "{now}"', ""))
    assert main(words) == 2
    assert f"{name} is cluster {now} now, and cluster {before} has forwarded" in caplog.text
    path.write_text(renamed.replace(f'cluster = "{now}"', f'cluster = "{before}"'))
    assert main(words) == 0
    assert main(words) == 0, "once more with the same epoch"
    (fence,) = fences_of(asyncio.run(newark.rows(SITES)), before)
    assert (fence.epoch, fence.fenced) == (1, True)
    broker = newark.kafka["bootstrap_servers"]
    path.write_text(f'{path.read_text()}\n[site.alias]\nbroker = "{broker}"\n')
    here = asyncio.run(newark.identify())
    path.write_text(f'{path.read_text()}cluster = "{here}"\n')
    assert main([*words[:3], "alias", "--epoch=1", "--reason=lost", f"--without={name}"]) == 2
    assert "alias is one of the others by another name" in caplog.text
