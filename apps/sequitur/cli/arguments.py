"""What the command lines have in common."""

import argparse
import os
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from stores.db.urls import UrlError, read_url

URL_HELP = "@FILE for a file that it is in; passwords: @FILE, PGPASSWORD or PGPASSFILE"


class Parser(argparse.ArgumentParser):
    """A command line whose mistakes are told without what may be secret in it."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and end with status 2."""
        unknown, mark, words = message.partition("unrecognized arguments:")
        if mark:
            named = [word.partition("=")[0] for word in words.split() if word.startswith("-")]
            message = f"{unknown}{mark} {' '.join(named) or 'words without an option'}"
        super().error(message)


def url(text: str) -> str:
    """A URL, or that in the file of `@FILE`."""
    try:
        return read_url(text)
    except UrlError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def http_url(text: str) -> str:
    """The same, of what is asked by HTTP."""
    place = url(text)
    try:
        parts = urlsplit(place)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good or "@" in place:
        raise argparse.ArgumentTypeError("write http://HOST:PORT or https://HOST, without a login")
    return place


def broker(text: str) -> str:
    """host:port, or several joined by commas."""
    if "@" in text or "://" in text:
        raise argparse.ArgumentTypeError(
            "write host:port; how to log in is said by a file of client properties"
        )
    return text


def checkpoint(text: str) -> str:
    """The place of a Spark checkpoint; what can be told of a local one is told before Spark is."""
    if ":" in text.partition("/")[0]:
        return text  # on a file system that Spark knows
    folder = Path(text)
    try:
        there = [each.name for each in folder.iterdir()]
    except FileNotFoundError:
        return text
    except OSError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no folder to use: {error.strerror}"
        ) from None
    if "metadata" not in there and [name for name in there if not name.startswith(".")]:
        raise argparse.ArgumentTypeError(
            f"the folder {text!r} is not empty, and no checkpoint of Spark; name one of its own"
        )
    return text


def add_broker(parser: argparse.ArgumentParser) -> None:
    """Add --broker."""
    parser.add_argument(
        "--broker",
        type=broker,
        default=os.environ.get("SEQUITUR_BROKER", "127.0.0.1:9092"),
        help="host:port of Kafka (SEQUITUR_BROKER, else 127.0.0.1:9092)",
    )


def add_kafka(parser: argparse.ArgumentParser) -> None:
    """Add --kafka-option and --kafka-properties; see `kafka_options`."""
    parser.add_argument(
        "--kafka-option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="of Spark's Kafka source, such as kafka.security.protocol=SSL; may be repeated",
    )
    parser.add_argument(
        "--kafka-properties",
        type=Path,
        metavar="FILE",
        help="client properties, such as sasl.jaas.config=…: secrets are not for command lines",
    )


def count(text: str) -> int:
    """A number from 1 on."""
    if (number := int(text)) < 1:
        raise ValueError
    return number


def seconds(text: str) -> float:
    """A time of up to an hour."""
    if not 0 <= (number := float(text)) <= 3600:
        raise ValueError
    return number
