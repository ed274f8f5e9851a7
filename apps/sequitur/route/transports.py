"""The transports of a router: the tables `[transport.NAME]` of its TOML file."""

import os
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError, validate_call

from sequitur.kafka.login import kafka_login
from stores.db.engines import open_engine
from stores.db.urls import read_url
from stores.outbox import MessageLog
from stores.segments import Inbound, Outbound
from stores.segments.transports.files import FileInbound, FileOutbound
from stores.segments.transports.kafka import KafkaInbound, KafkaOutbound
from topology.model.closest import closest
from topology.model.dotted import load
from topology.model.duration import seconds_of
from topology.model.errors import DeclarationError, first_of
from topology.model.names import signature_of
from topology.model.printable import printable

Heartbeat = Annotated[
    int,
    BeforeValidator(lambda given: seconds_of(given) if isinstance(given, str) else given),
    Field(ge=1, le=3_600),
]
"""Whole seconds, or a duration such as "10s"."""
RABBITMQ = "SEQUITUR_RABBITMQ"
"""The variable that has RabbitMQ's URL where the file does not name one."""


@dataclass(frozen=True, slots=True)
class Transport:
    """A transport by its name.

    Attributes:
        inbound: makes the side that consumes of a topic, its place there, which is a queue or a
            file, and a router's name.
        outbound: makes the side that publishes of a router's name.
        kafka: of Kafka, the arguments of aiokafka's clients.
        server: where what is sent to a destination comes to the source whose place it is called
            by; transports of one server have equal ones. None: it does not.
    """

    inbound: Callable[[str, str, str], Inbound] | None = None
    outbound: Callable[[str], Outbound] | None = None
    kafka: Mapping[str, Any] | None = None
    server: Hashable = None


def open_transports(given: object, folder: Path) -> dict[str, Transport]:
    """Make the transports of a configuration; nothing is connected yet.

    Args:
        given: name → its table, whose `kind` is one of KINDS, or `module:function` of a function
            that takes the table's other values and returns a `Transport`.
        folder: where the paths in it begin.

    Raises:
        DeclarationError: what is wrong, and where.
        UrlError: a file with a URL cannot be read.
    """
    if not isinstance(given, Mapping) or not all(
        isinstance(each, Mapping) for each in given.values()
    ):
        raise DeclarationError("transport: write tables, as in [transport.NAME]")
    found = {}
    for name, table in given.items():
        what, rest = f"transport {printable(name)!r}", dict(table)
        kind = rest.pop("kind", None)
        if isinstance(kind, str) and ":" in kind:
            make = load(f"{what}: kind", kind, "a function")
        elif isinstance(kind, str) and kind in KINDS:
            make = partial(validate_call(KINDS[kind]), folder)
        else:
            raise DeclarationError(
                f"{what}: kind = {printable(repr(kind))}; give one of {', '.join(KINDS)}, or "
                f"module:function{closest(str(kind), KINDS)}"
            )
        try:
            signature_of(make).bind(**rest)
            found[name] = make(**rest)
        except ValidationError as error:
            raise DeclarationError(f"{what}: {first_of(error)}") from None
        except TypeError as error:
            raise DeclarationError(f"{what}: {printable(error)}") from None
    return found


def _kafka(beside: Path, broker: str | None = None, properties: str | None = None) -> Transport:
    login = kafka_login(broker, None if properties is None else beside / properties)

    def inbound(topic: str, place: str, router: str) -> Inbound:
        if place != topic:
            raise DeclarationError(f"source {topic!r}: a topic of Kafka has no other name")
        # Not the router's name alone: a topology, or `serve`, may have a group of that name.
        return KafkaInbound(topic, login, f"{router}.units")

    outbound = partial(KafkaOutbound, login)
    return Transport(inbound, outbound, login, login["bootstrap_servers"])


def _files(beside: Path, folder: str = ".") -> Transport:
    return Transport(
        lambda topic, place, _: FileInbound(topic, beside / folder / place),
        lambda router: FileOutbound(beside / folder, router),
    )


def _rabbitmq(
    beside: Path,
    url: str | None = None,
    exchange: str = "",
    heartbeat: Heartbeat = 10,
    stream: str = "sequitur-stream",
    sequence: str = "sequitur-sequence",
    prefetch: Annotated[int, Field(ge=1, le=65_535)] = 1_000,
) -> Transport:
    from stores.segments.transports.rabbitmq import RabbitInbound, RabbitLogin, RabbitOutbound

    login = RabbitLogin(_url(beside, url), heartbeat)
    names = {"stream": stream, "sequence": sequence}
    return Transport(
        lambda topic, place, _: RabbitInbound(topic, login, place, **names, prefetch=prefetch),
        lambda router: RabbitOutbound(login, router, exchange=exchange),
        server=None if exchange else login,
    )


def _streams(
    beside: Path,
    url: str | None = None,
    port: Annotated[int, Field(ge=1, le=65_535)] = 5552,
    heartbeat: Heartbeat = 10,
) -> Transport:
    from stores.segments.transports.rabbitmq import RabbitLogin
    from stores.segments.transports.rabbitmq_streams import (
        RabbitStreamInbound,
        RabbitStreamOutbound,
    )

    login = RabbitLogin(_url(beside, url), heartbeat)
    return Transport(
        lambda topic, place, _: RabbitStreamInbound(topic, login, place),
        lambda _: RabbitStreamOutbound(login, port),
        server=login,
    )


def _sql(beside: Path, database: str, log: str = "sequitur", inbox: str = "default") -> Transport:
    from stores.segments.transports.sql import InboxOutbound, LogInbound

    engine = open_engine(_url(beside, database))
    return Transport(
        lambda topic, *_: LogInbound(topic, engine, MessageLog(log)),
        lambda router: InboxOutbound(engine, inbox, router),
    )


def _url(beside: Path, given: str | None) -> str:
    """A URL of the file, of another file by `@FILE`, or of the environment."""
    url = given or os.environ.get(RABBITMQ)
    if url is None:
        raise DeclarationError(f'no url; give url = "@FILE", or set {RABBITMQ}')
    if url.startswith("@"):
        return read_url(f"@{beside / url[1:]}")
    return url


KINDS: Mapping[str, Callable[..., Transport]] = {
    "kafka": _kafka,
    "files": _files,
    "rabbitmq": _rabbitmq,
    "rabbitmq-stream": _streams,
    "sql": _sql,
}
