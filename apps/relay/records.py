"""Messages and requests as records of Kafka."""

import orjson

from apps.relay.link import Missing
from stores.message import Message

SEQUENCE, KIND, VOID = "sequitur-sequence", "sequitur-kind", "sequitur-void"
"""Headers; the record's key is the stream."""


def headers_of(message: Message) -> list[tuple[str, bytes]]:
    """A message's headers on Kafka."""
    found = [(name, value.encode()) for name, value in message.headers.items()]
    found.append((SEQUENCE, b"%d" % message.sequence))
    if message.kind is not None:
        found.append((KIND, message.kind.encode()))
    return found


def missing_of(topic: str, value: bytes | None) -> Missing:
    """The request in a record of the topic `<topic>.resend`. Raises ValueError if it is none."""
    try:
        body = orjson.loads(value or b"")
        first, last = int(body["first"]), int(body["last"])
        found = Missing(
            topic, str(body["stream"]), first, last, str(body.get("view", "")),
            str(body.get("commands", "")), int(body.get("partition", 0)),
        )  # fmt: skip
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this is no request to resend: {error!r}") from None
    if not 1 <= first <= last:
        raise ValueError(f"this is no request to resend: sequences {first} to {last}")
    if found.commands and not found.commands.endswith(f".{found.view}.commands"):
        raise ValueError(f"{found.commands!r} is not where view {found.view!r} is told things")
    return found
