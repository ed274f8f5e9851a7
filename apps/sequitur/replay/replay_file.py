"""The TOML file of `sequitur replay`: the log, what is captured, and what is found in contents.

[replay]
database = "@database.url"       # of the log: a URL, or the file that has it, beside this one
site = "ewr"                     # a part of each message's position; the cluster id unless given
topics = ["moves", "orders.*"]   # what is captured: names, and patterns with * ? [ ]
broker = "127.0.0.1:9092"        # SEQUITUR_BROKER unless given
keep = "30d"                     # the server drops what was captured before; unless given, nothing

[field.tail]                     # metadata: a column that queries find by
kind = "text"                    # or "integer", "number"
path = "plane.tail"              # or of some topics: { moves = "plane.tail", "orders.*" = "tail" }

[stream.moves]                   # what is a message's stream, and its sequence
stream = { record = "key" }      # or { header = "name" }, or a path
sequence = "leg"

[format."orders.*"]              # json unless given; options as of the router's [module.NAME]
format = "csv"

[server]                         # all of it may be left out
host = "127.0.0.1"
port = 7080
token = "@token"                 # SEQUITUR_REPLAY_TOKEN unless given
reading = "open"                 # without the token; "token" unless host is loopback
router = "router.toml"           # whose rules a recovery through the router goes by
requests = "recovery-requests"   # the topic by which recoveries may be asked for, beside HTTP
query_seconds = "30s"            # that a query over HTTP may take

[application.board]              # whose recoveries are asked for by this name
topics = ["moves"]
"""

import re
import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationError
from sqlalchemy import Engine

from sequitur.alerts.config import Seconds, StrictTable
from stores.db.engines import open_engine
from stores.db.urls import FILE, existing, read_url
from stores.replay import FieldKind, ReplayLog
from topology.model.errors import DeclarationError, first_of
from topology.model.names import checked_topic

Place = str | int | dict[str, Any]
"""A place in a content, a column's or a tag's number, { header = … } or { record = "key" }."""
_PATTERN = frozenset("*?[")
_OWN = re.compile(r"(__|sequitur-).*|.*(\.recovery\.[0-9a-f]{12}|\.recovering)")
"""Topics that are no user's: Kafka's, Sequitur's, and those of recoveries."""
T = TypeVar("T")


class LogTable(StrictTable):
    """The table `[replay]`.

    Attributes:
        database: the log's URL, or @FILE beside this one.
        site: where this is; None: the cluster's id.
        topics: names and patterns of what is captured.
        broker: host:port; None for that of the environment.
        lease: seconds after which a dead process's topics go to another.
        look: seconds between two looks for new topics.
        keep: seconds after which servers drop what was captured; None: they drop nothing.
    """

    database: str = Field(min_length=1)
    site: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_.-]{1,100}$")
    topics: tuple[str, ...] = ()
    broker: str | None = None
    lease: Seconds = Field(default=10.0, ge=0.1, le=60)
    look: Seconds = Field(default=10.0, ge=0.1)
    keep: Seconds | None = Field(default=None, ge=1)


class FieldTable(StrictTable):
    """A table `[field.NAME]`: its kind, and where it is, in all topics or by topic."""

    kind: FieldKind = FieldKind.TEXT
    path: Place


class StreamTable(StrictTable):
    """A table `[stream."TOPIC"]`."""

    stream: Place
    sequence: Place | None = None


class ServerTable(StrictTable):
    """The table `[server]`.

    Attributes:
        host: the address to listen on.
        port: there.
        token: "@FILE", which has it; None: it is in the environment.
        reading: "open" or "token"; None: open where host is loopback.
        router: the router's file, beside this one; None: there is none.
        requests: the topic by which recoveries may be asked for; None: over HTTP alone.
        query_seconds: that a query over HTTP may take.
    """

    host: str = "127.0.0.1"
    port: int = Field(default=7080, ge=0, le=65535)
    token: str | None = Field(default=None, pattern="^@.")
    reading: Literal["open", "token"] | None = None
    router: str | None = None
    requests: str | None = None
    query_seconds: Seconds = Field(default=30.0, ge=0.1)


class ApplicationTable(StrictTable):
    """A table `[application.NAME]`: what it consumes."""

    topics: tuple[str, ...] = Field(min_length=1)


class ReplayFile(StrictTable):
    """The file.

    Attributes:
        replay: the log.
        field: name → metadata.
        stream: topic or pattern → where stream and sequence are.
        format: topic or pattern → how contents are read.
        server: of `sequitur replay serve`.
        application: name → what may be asked for by that name.
    """

    replay: LogTable
    field: dict[str, FieldTable] = Field(default_factory=dict)
    stream: dict[str, StreamTable] = Field(default_factory=dict)
    format: dict[str, dict[str, Any]] = Field(default_factory=dict)
    server: ServerTable = ServerTable()
    application: dict[str, ApplicationTable] = Field(default_factory=dict)
    folder: Path = Field(default=Path(), exclude=True)

    @cached_property
    def url(self) -> str:
        """The URL of the log's database. Raises UrlError."""
        given = self.replay.database
        if given.startswith(FILE):
            given = f"{FILE}{self.folder / given.removeprefix(FILE)}"
        return read_url(given)

    @property
    def fields(self) -> dict[str, FieldKind]:
        """Name → the kind of each field."""
        return {name: each.kind for name, each in self.field.items()}

    def engine(self) -> Engine:
        """Open the log's database. Raises UrlError."""
        return open_engine(self.url, max_overflow=20)  # counts, queries, replays, leases

    def log(self) -> ReplayLog:
        """Open the log to write to it; its tables are made. Raises UrlError, SQLAlchemyError."""
        log = ReplayLog(self.engine(), self.fields)
        try:
            log.create()
        except BaseException:
            log.engine.dispose()  # nobody else can, and who waits for the database tries again
            raise
        return log

    def existing_log(self) -> ReplayLog:
        """Open a log that is there. Raises UrlError, SQLAlchemyError."""
        existing(self.url)
        return self.log()

    def names(self) -> set[str]:
        """The topics that are captured by their names."""
        return {each for each in self.replay.topics if not _PATTERN.intersection(each)}

    def captures(self, topic: str) -> bool:
        """Whether a topic is captured: by its name, or by a pattern and it is a user's."""
        if topic in self.replay.topics:
            return True
        users = not _OWN.fullmatch(topic)
        return users and any(fnmatchcase(topic, each) for each in self.replay.topics)


def of_topic(tables: Mapping[str, T], topic: str) -> T | None:
    """What a table says of a topic: by its name, else by the first pattern that matches."""
    if topic in tables:
        return tables[topic]
    return next((given for name, given in tables.items() if fnmatchcase(topic, name)), None)


def read_replay_file(path: Path) -> ReplayFile:
    """Read and check the file.

    Args:
        path: of the file.

    Raises:
        DeclarationError: what is wrong in it, and where.
        OSError: it cannot be read.
    """
    try:
        given = tomllib.loads(path.read_text())
        if "folder" in given:
            raise DeclarationError(f"{path}: folder: a file has no such table")
        found = ReplayFile.model_validate({**given, "folder": path.absolute().parent})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DeclarationError(f"{path}: it is no TOML: {error}") from None
    except ValidationError as error:
        raise DeclarationError(f"{path}: {first_of(error)}") from None
    for each in sorted(found.names()):
        try:
            checked_topic(each)
        except DeclarationError as error:
            raise DeclarationError(f"{path}: replay.topics: {error}") from None
    return found
