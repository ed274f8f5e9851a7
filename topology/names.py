"""Names of topologies, sources, views, tables: what Kafka and a database take without surprises."""

import re

from topology.errors import DeclarationError

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def checked_name(what: str, name: object) -> str:
    """The name, if it can be part of a topic's name. Raises DeclarationError."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise DeclarationError(
            f"{what} {name!r}: a name starts with a letter and has up to 100 of A–Z a–z 0–9 _ . -"
        )
    return name


def checked_topic(topic: object) -> str:
    """The topic's name, if Kafka takes it. Raises DeclarationError."""
    if not isinstance(topic, str) or not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise DeclarationError(
            f"topic {topic!r}: a topic's name has 1 to 249 of A–Z a–z 0–9 _ . - and is not . or .."
        )
    return topic
