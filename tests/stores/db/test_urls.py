"""URLs as they may be shown: no secret of theirs, whatever is wrong with them."""

from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy.exc import DatabaseError

from stores.db.engines import open_engine
from stores.db.urls import UrlError, read_url, said, without_password

SECRET = "hUsh9"
POSITIONS = [
    "postgresql://me:{}@host/db",
    "postgresql://me:a@{}@host/db",
    "postgresql://me:a/{}@host/db",
    "postgresql://me:a?{}@host/db",
    "postgresql://me:a#{}@host/db",
    "postgresql://me:a {}@host/db",
    "postgresql://me:{}%zz@host/db",
    "postgresql://me:{}",
    "postgresql:/me:{}@host/db",
    "postgresql//me:{}@host/db",
    "postgresql:me:{}@host/db",
    "postgresql://host:{}/db",
    "postgresql:///me:{}@host/db",
    "postgresql://host/db?password={}",
    "postgresql://host/db?pass%77ord={}",
    "postgresql://host/db?user=me&sslpassword={}&host=x",
    "postgresql://host/db?options=-c%20my.token%3D{}",
    "postgresql://host/db?{}",
    "postgresql://host/db?host=me:{}@other",
    "postgresql://host/db#{}",
    "mysql://me:{}@host/db",
    "redis://:{}@host:1/0",
    "delta:s3a://key:{}@bucket/folder",
    "host=x password={}",
    "my.module:function?token={}",
]


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("secret", [SECRET, quote(f"{SECRET}@/", safe="")])
def test_no_secret_is_shown_wherever_it_stands(position: str, secret: str) -> None:
    url = position.format(secret)
    shown = without_password(url)
    assert SECRET not in shown
    assert without_password(shown) == shown
    for quoted in (url, f'invalid port "{secret}"', f"no host '{secret}@host'"):
        told = said(ValueError(f"cannot: {quoted}"), url)
        assert SECRET not in told


@given(st.text(max_size=60), st.sampled_from(POSITIONS))
@example("a&password=b", "postgresql://host/db?password={}")
@example("b@", "postgresql://me:a@{}@host/db")
def test_what_is_shown_is_shown_the_same_again(secret: str, position: str) -> None:
    url = position.format(secret)
    shown = without_password(url)
    assert without_password(shown) == shown
    said(ValueError(url), url)


@given(st.text("abcXYZ0189!$%&'()*+,-./:;<=>?@[]^_`{|}~ #", min_size=8, max_size=30))
def test_no_password_as_it_is_typed_is_shown(password: str) -> None:
    marked = f"{SECRET}{password}{SECRET}"
    for url in (f"postgresql://me:{marked}@host/db", f"redis://:{marked}@host"):
        assert SECRET not in without_password(url)
        assert SECRET not in said(ValueError(f"bad {url}, {marked}"), url)


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///read.db",
        "sqlite:////data/mine@home/read.db",
        "postgresql://host:5432/db?host=/run/postgresql&sslmode=require",
        "postgresql://one:1,two:2/db?options=-csearch_path=mine",
        "postgresql://[::1]:5432/db",
        "delta:s3a://bucket/folder",
        "redis+unix:///run/redis.sock?db=0",
        "rocksdb",
        "my.module:function",
    ],
)
def test_what_is_no_secret_is_shown(url: str) -> None:
    assert without_password(url) == url
    assert said(ValueError(f"{url} is away"), url) == f"{url} is away"


def test_what_a_driver_says_is_told_on_one_line() -> None:
    url = f"postgresql://me:{SECRET}@host/db"
    assert said(OSError("no\n\tanswer from host"), url) == "no answer from host"
    assert said(TimeoutError(), url) == "TimeoutError"


def test_a_url_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text("postgresql://me:x@host/db\nanything\n")
    assert read_url(f"@{file}") == "postgresql://me:x@host/db"
    assert read_url("sqlite:///x") == "sqlite:///x"
    file.write_text("")
    for wrong in (f"@{file}", f"@{tmp_path}/missing", f"@{tmp_path}", "@"):
        with pytest.raises(UrlError, match="URL file"):
            read_url(wrong)


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "log.db").write_text("no database\n" * 100)
    with pytest.raises(DatabaseError) as caught:
        open_engine(f"sqlite:///{tmp_path}/log.db").connect()
    assert said(caught.value) == f"{tmp_path}/log.db: file is not a database"
