"""Which store a URL opens, and what is said to one that opens none."""

import sys
from pathlib import Path

import pytest

from stores.view_state.by_url import open_store
from stores.view_state.files import FileStore
from stores.view_state.memory import MemoryStore
from stores.view_state.rocksdb import RocksStore
from stores.view_state.table import TableError


def of_my_own(url: str, group: str, datadir: Path) -> MemoryStore:
    assert (url.removesuffix("?folder=x"), group) == (f"{__name__}:of_my_own", "shop")
    return MemoryStore()


def test_stores_in_files_lie_in_the_data_folder_or_where_the_url_says(tmp_path: Path) -> None:
    assert isinstance(open_store("memory", "shop", tmp_path), MemoryStore)
    for kind, store_class in (("rocksdb", RocksStore), ("files", FileStore)):
        store = open_store(kind, "shop", tmp_path)
        assert isinstance(store, store_class)
        assert store.folder == tmp_path / "shop"
        store = open_store(f"{kind}:///elsewhere/state", "shop", tmp_path)
        assert isinstance(store, store_class)
        assert store.folder == Path("/elsewhere/state/shop")


def test_a_store_of_one_s_own_is_named_by_its_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, __name__, sys.modules[of_my_own.__module__])
    assert isinstance(open_store(f"{__name__}:of_my_own", "shop"), MemoryStore)
    assert isinstance(open_store(f"{__name__}:of_my_own?folder=x", "shop"), MemoryStore)


def test_a_function_that_is_misspelt_is_told_with_what_comes_close() -> None:
    with pytest.raises(TableError, match=r"no 'open_stor' \(did you mean 'open_store'") as error:
        open_store("stores.view_state.by_url:open_stor?token=hush", "shop")
    assert "hush" not in str(error.value)
    with pytest.raises(TableError, match=r"did you mean 'rocksdb'"):
        open_store("rocksd", "shop")


@pytest.mark.parametrize(
    "url", ["", "mysql://me:secret@host/db", "rocks", "://", "no_such_module:open", "os:no_such"]
)
def test_a_url_of_no_known_kind_is_refused_with_those_that_are(url: str) -> None:
    with pytest.raises(TableError, match=r"use rocksdb, .*redis://.*module:function") as error:
        open_store(url, "shop")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("module", "extra", "url"),
    [("psycopg", "postgres", "postgresql://h/d"), ("redis", "redis", "redis://h:1/0")],
)
def test_a_library_that_is_not_installed_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, module: str, extra: str, url: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(TableError, match=rf"needs the package {module} .*sequitur\[{extra}\]=="):
        open_store(url, "shop")
