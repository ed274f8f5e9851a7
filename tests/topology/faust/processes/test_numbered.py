"""Workers of one machine share settings, and nothing that two of them cannot have."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from faust.cli.faust import cli

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


def test_a_url_of_a_folder_that_is_in_a_file_is_partitioned_and_a_secret_one_stays_there(
    tmp_path: Path,
) -> None:
    file = tmp_path / "url"
    for url, found in (
        ("rocksdb:///disk\n", "rocksdb:///disk/worker-2"),
        ("postgresql://me:hush@host/db", f"@{file}"),
    ):
        file.write_text(url)
        assert NumberedWorker(2, 1).settings(Settings(view_state=f"@{file}")).view_state == found


def test_each_answers_queries_at_the_next_port() -> None:
    given = Settings(queries="0.0.0.0:7000", queries_url="http://[::1]:80/")
    found = NumberedWorker(3, 1).settings(given)
    assert (found.queries, found.queries_url) == ("0.0.0.0:7002", "http://[::1]:82")


@pytest.mark.parametrize(
    "url", ["http://host", "http://h:80/shop", "http://me:hush@h", "80", "http://h:65535"]
)
def test_a_supervisor_refuses_a_url_that_cannot_be_counted_up(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sequitur.flights import app

    settings = app.engine.settings  # type: ignore[attr-defined]
    given = settings.model_copy(update={"queries": "127.0.0.1:7000", "queries_url": url})
    monkeypatch.setattr(app.engine, "settings", given)  # type: ignore[attr-defined]
    told = CliRunner().invoke(cli, ["-A", "sequitur.flights", "worker", "--processes", "2"])
    assert told.exit_code == 2
    assert "queries_url" in told.output
    assert "let it end with the port" in told.output
    assert "hush" not in told.output


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
