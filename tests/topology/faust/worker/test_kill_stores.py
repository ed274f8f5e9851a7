"""Workers whose view state is on a server are killed, and the server too: nothing shows of it."""

import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from checkout.postgres import Postgres
from checkout.redis import Redis
from soak.chaos import Soak, let_work
from soak.check import check
from soak.harms import harm
from soak.workload import workload
from stores.view_state.by_url import open_store

pytestmark = pytest.mark.integration

EVENTS, STREAMS = 10_000, 200


def tables_in_use(soak: Soak) -> int:
    """How many tables stand somewhere, of 4 partitions of 2 views."""
    store = open_store(soak.store, soak.prefix, soak.data("a"))
    tables = [store.table(view, n) for view in ("ledger", "copies") for n in range(4)]
    found = sum(table.offset is not None for table in tables)
    for table in tables:
        table.close()
    store.close()
    return found


@pytest.mark.parametrize("kind", ["postgres", "redis_server", "sqlite", "files"])
def test_exactly_once_over_kills_of_two_workers(
    kind: str,
    soaks: Callable[..., Soak],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    store = {"files": "files", "sqlite": f"sqlite:///{tmp_path}/state.sqlite"}.get(kind)
    soak = soaks(store=store or request.getfixturevalue(kind).url)
    work, chance = workload(EVENTS, STREAMS, seed=11), random.Random(11)
    soak.fill(work)
    names = ["a", "b"]
    for name in names:
        soak.start(name)
    for _ in range(3):
        let_work(soak, chance.randrange(EVENTS // 3), 12)
        harm(soak, chance, names)
    soak.wait(240)
    assert set(soak.stop_all().values()) <= {0, -15}
    assert check(soak.broker, soak.prefix, work, soak.data("a"), store=soak.store) == []
    # Files are each worker's own, of the partitions that it had.
    assert tables_in_use(soak) == 8 or (kind == "files" and tables_in_use(soak) > 0)


def test_a_zombie_changes_nothing_of_what_the_new_owner_has_on_the_server(
    soaks: Callable[..., Soak], postgres: Postgres
) -> None:
    soak, work = soaks(store=postgres.url), workload(EVENTS, STREAMS, seed=12)
    soak.fill(work)
    soak.start("a")
    soak.ready("a")
    let_work(soak, len(work.messages) // 4, 30)
    soak.pause("a")
    soak.start("b")
    soak.ready("b")  # it has all partitions, and works on
    let_work(soak, len(work.messages) // 4, 20)
    soak.resume("a")
    soak.wait(240)
    assert set(soak.stop_all().values()) == {0}
    assert check(soak.broker, soak.prefix, work, soak.data("a"), store=soak.store) == []
    assert tables_in_use(soak) == 8


@pytest.mark.parametrize("kind", ["postgres", "redis_server"])
def test_a_server_that_crashes_is_waited_for_and_then_caught_up(
    kind: str, soaks: Callable[..., Soak], request: pytest.FixtureRequest
) -> None:
    server: Postgres | Redis = request.getfixturevalue(kind)
    soak, work = soaks(store=server.url), workload(EVENTS, STREAMS, seed=13)
    part = len(work.messages) // 3
    soak.fill(replace(work, messages=work.messages[:part]))
    soak.start("a")
    soak.ready("a")
    for first in (part, 2 * part):
        let_work(soak, part // 2, 30)
        server.kill()
        # So that there is something left to do, however fast the worker is.
        soak.send(work.messages[first : first + part] if first == part else work.messages[first:])
        until = time.monotonic() + 120
        while b"see that the server runs" not in (soak.folder / "a.log").read_bytes():
            assert time.monotonic() < until, "it does not say that its store is away"
            time.sleep(0.2)
        time.sleep(1)
        server.start()
    soak.wait(240)
    assert set(soak.stop_all().values()) == {0}
    assert check(soak.broker, soak.prefix, work, soak.data("a"), store=soak.store) == []
