"""Options of Spark's Kafka source, as the command line and a properties file give them."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

_OWN = frozenset(
    {
        *("assign", "subscribe", "subscribepattern", "startingoffsets", "maxoffsetspertrigger"),
        *("includeheaders", "kafka.bootstrap.servers", "kafka.isolation.level"),
    }
)
"""What the materializer sets itself, in lower case as Spark compares."""
_SECRET = re.compile("pass|secret|jaas|token|key|credential", re.IGNORECASE)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)+)"')


class OptionError(ValueError):
    """An option that cannot be taken; the text does not hold its value."""


def kafka_options(options: Iterable[str], properties: Path | None = None) -> dict[str, str]:
    """Return option → value from texts `key=value`, which go before those of the file.

    properties: a file of Kafka client properties, whose names are without Spark's prefix `kafka.`.
    """
    found = {}
    if properties is not None:
        text = read_properties(properties)
        found = {f"kafka.{key}": value for key, value in _properties(properties, text).items()}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals or not key.strip():
            raise OptionError("a Kafka option is written key=value")
        found[key.strip()] = value.strip()
    for key in found:
        if key.lower() in _OWN:
            raise OptionError(f"the Kafka option {key} is set by the materializer itself")
    return found


def read_properties(path: Path) -> str:
    """The text of a file of client properties. Raises OptionError."""
    try:
        return path.read_text()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise OptionError(f"Kafka properties {path}: {reason}") from None


def _properties(path: Path, text: str) -> dict[str, str]:
    """The properties of a file: `key=value` lines, `#` or `!` comments, `\\` at the end goes on."""
    found = {}
    for number, line in enumerate(re.sub(r"\\\r?\n\s*", "", text).splitlines(), 1):
        line = line.strip()
        if not line or line[0] in "#!":
            continue
        key, equals, value = line.partition("=")
        if not equals:
            raise OptionError(f"{path}: entry {number} is no key=value")
        found[key.strip()] = value.strip()
    return found


def without_secrets(text: str, options: Mapping[str, str]) -> str:
    """The text without the values of options that hold secrets."""
    for key, value in options.items():
        if value and _SECRET.search(key):
            for secret in (value, *_QUOTED.findall(value)):
                text = text.replace(secret, "…")
    return text
