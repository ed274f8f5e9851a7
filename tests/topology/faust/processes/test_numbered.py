"""Workers of one machine share settings, and nothing that two of them cannot have."""

import os
import subprocess
import sys

import pytest

from topology.faust.processes import NumberedWorker
from topology.faust.settings import Settings


def test_what_a_worker_is_told_it_finds_in_its_environment() -> None:
    told = NumberedWorker(3, 4711, 9)
    assert NumberedWorker.of(told.environment) == told
    assert NumberedWorker.of({}) is None


def test_each_has_its_own_folder_name_socket_and_port() -> None:
    given = Settings(datadir="data", instance="blue", metrics="9464", view_state="rocksdb:///disk")
    first, second = (NumberedWorker(n, 1, 6 + n) for n in (1, 2))
    found = second.settings(given)
    assert (found.datadir, found.instance, found.metrics, found.view_state) == (
        "data/worker-2", "blue-2", "fd:8", "rocksdb:///disk/worker-2",
    )  # fmt: skip
    assert first.settings(given).datadir == "data/worker-1"
    assert (first.port(6066), second.port(6066)) == (6066, 6067)


@pytest.mark.parametrize("url", ["rocksdb", "memory", "postgresql://host/db", "module:function"])
def test_what_is_not_given_or_is_shared_stays(url: str) -> None:
    found = NumberedWorker(2, 1).settings(Settings(view_state=url))
    assert (found.view_state, found.instance, found.metrics) == (url, None, None)


@pytest.mark.integration
def test_who_finds_another_parent_ends_at_once() -> None:
    code = (
        "import os; from topology.faust.processes import NumberedWorker as N;"
        "N.of(os.environ).end_with_supervisor(); print('works')"
    )
    for supervisor, said in ((os.getpid(), "works\n"), (1_000_000_000, "")):
        found = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, **NumberedWorker(1, supervisor).environment},
            capture_output=True,
            text=True,
        )
        assert found.stdout == said, found.stderr
