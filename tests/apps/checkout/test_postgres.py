"""A PostgreSQL of one's own: it starts, keeps what it holds, and leaves nothing behind."""

import os
import pwd

import psycopg
import pytest

from checkout import postgres
from checkout.postgres import Postgres
from sequitur.local.home import LocalError


def value(url: str) -> object:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT number FROM kept").fetchone()
    return found and found[0]


def test_it_starts_and_keeps_what_it_holds_over_stop_and_kill_and_goes_with_its_folder() -> None:
    with Postgres() as server:
        url = server.new_database("mine")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 17 AS number")
        server.stop()
        with pytest.raises(psycopg.OperationalError):
            value(url)
        server.start()
        assert value(url) == 17
        server.kill()
        server.start()
        server.start()
        assert value(url) == 17
        # Nobody else may enter, and root's server is not root's process.
        mode = server.folder.stat()
        assert mode.st_mode & 0o077 == 0
        if os.geteuid() == 0:
            assert mode.st_uid == pwd.getpwnam("nobody").pw_uid
    assert not server.folder.exists()


def test_it_listens_nowhere_but_on_its_socket(postgres: Postgres) -> None:
    with psycopg.connect(postgres.url) as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
        assert connection.execute("SELECT inet_server_addr()").fetchone() == (None,)


def test_a_start_that_fails_says_why() -> None:
    server = Postgres({"shared_buffers": "nonsense"})
    try:
        with pytest.raises(LocalError, match=r"(?s)shared_buffers.*Remedy"):
            server.start()
    finally:
        server.close()


def test_without_the_package_the_remedy_is_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "_PACKAGE", "no_such_package")
    server = Postgres()
    try:
        with pytest.raises(LocalError, match="run scripts/setup"):
            server.start()
    finally:
        server.close()
