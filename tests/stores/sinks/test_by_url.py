"""Read stores are chosen by URL."""

from pathlib import Path

import pytest

from stores.sinks import StoreError, open_sink
from stores.sinks.sql.sqlite import SqliteSink


def test_a_path_from_the_root(tmp_path: Path) -> None:
    with open_sink(f"sqlite:///{tmp_path}/read.db") as sink:
        assert isinstance(sink, SqliteSink)
        assert sink.path == tmp_path / "read.db"


def test_a_path_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_sink("sqlite:///some#where/read?.db"):
        assert (tmp_path / "some#where" / "read?.db").exists()


@pytest.mark.parametrize(
    "url", ["read.db", "sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite://read.db", ""]
)
def test_an_unknown_url_is_refused_with_the_remedy(url: str) -> None:
    with pytest.raises(StoreError, match="sqlite:///FILE"):
        open_sink(url)


def test_no_password_in_the_message() -> None:
    with pytest.raises(StoreError) as refused:
        open_sink("mysql://me:secret@host/db")
    assert "secret" not in str(refused.value)
    assert "mysql://…@host/db" in str(refused.value)
