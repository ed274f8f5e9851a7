"""Options that several commands have, and how their values are read."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from stores.db.urls import read_url
from topology.model.address import read_address, read_brokers
from topology.model.duration import seconds_of


class Reads(click.ParamType):
    """A value that a function reads from a text. Its ValueError is the reason of the refusal."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def http_url(text: str) -> str:
    """Return the URL, or that in the file of `@FILE`, of what is asked by HTTP."""
    place = read_url(text)
    try:
        parts = urlsplit(place)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good or "@" in place:
        raise ValueError("write http://HOST:PORT or https://HOST, without a login")
    return place


def checkpoint(text: str) -> str:
    """Return the place of a Spark checkpoint. A local one is looked at before Spark starts."""
    if ":" in text.partition("/")[0]:
        return text  # on a file system that Spark knows
    folder = Path(text)
    try:
        there = [each.name for each in folder.iterdir()]
    except FileNotFoundError:
        return text
    except OSError as error:
        raise ValueError(f"{text!r} is no folder to use: {error.strerror}") from None
    if "metadata" not in there and [name for name in there if not name.startswith(".")]:
        raise ValueError(
            f"the folder {text!r} is not empty, and no checkpoint of Spark; name one of its own"
        )
    return text


def period(text: str) -> float:
    """Return the seconds of a duration above 0."""
    if not (seconds := seconds_of(text)):
        raise ValueError("write a duration above 0, such as 10s")
    return seconds


def milliseconds(text: str) -> int:
    """Return a time as milliseconds since 1970; UTC unless it says otherwise."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return round(found.timestamp() * 1000)


URL = Reads("URL", read_url)
HTTP_URL = Reads("URL", http_url)
BROKER = Reads("HOST:PORT", read_brokers)
FILE = click.Path(path_type=Path)
COUNT = click.IntRange(1)
PORT = click.IntRange(0, 65535)
DURATION = Reads("DURATION", seconds_of)
PERIOD = Reads("DURATION", period)
TIME = Reads("TIME", milliseconds)
ADDRESS = Reads("[HOST:]PORT", read_address)


def _window(context: click.Context, param: click.Parameter, value: int | None) -> int | None:
    """Refuse times between which is nothing; whichever is read last sees the other."""
    ends = {**context.params, param.name or "": value}
    since, until = ends.get("since"), ends.get("until")
    if since is not None and until is not None and since >= until:
        raise click.BadParameter("nothing is from --since to before --until; --since is earlier")
    return value


def window(since: str, until: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add --since and --until, in ms since 1970, with their helps."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for name, help in (("--until", until), ("--since", since)):
            command = click.option(name, type=TIME, callback=_window, help=help)(command)
        return command

    return add


_DEFAULT_BROKER = "127.0.0.1:9092"


def broker_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --broker."""
    return click.option(
        "--broker",
        type=BROKER,
        default=lambda: os.environ.get("SEQUITUR_BROKER", _DEFAULT_BROKER),
        help=f"Kafka: SEQUITUR_BROKER, else {_DEFAULT_BROKER}.",
    )(command)


def read_store_option(
    help: str = "Its URL, or @FILE.", **more: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add --read-store, a URL that may be in a file; the command's parameter is `store`."""
    return click.option("--read-store", "store", type=URL, help=help, **more)


def database_option(what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add --database, a URL that may be in a file. what: whose it is, as help names it."""
    return click.option("--database", type=URL, required=True, help=f"URL of {what}, or @FILE.")


def topology_option(**more: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add --topology."""
    return click.option("--topology", metavar="MODULE:NAME", **more)


def kafka_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --kafka-option and --kafka-properties; see `sequitur.kafka.options`."""
    properties = click.option(
        "--kafka-properties",
        type=FILE,
        metavar="FILE",
        help="Client properties, secrets too.",
    )
    option = click.option(
        "--kafka-option",
        multiple=True,
        metavar="KEY=VALUE",
        help="Of Spark's Kafka source; repeatable.",
    )
    return option(properties(command))


def properties_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --kafka-properties for clients that are not Spark's; see `sequitur.kafka.login`."""
    return click.option(
        "--kafka-properties", type=FILE, metavar="FILE", help="Client properties, secrets too."
    )(command)


def metrics_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --metrics, where the process answers /metrics, /health and /ready."""
    return click.option("--metrics", type=ADDRESS, help="Serve metrics and probes there.")(command)
