"""Messages and requests as records of Kafka."""

import orjson

from sequitur.relay.link import MissingRange, checked_missing
from stores.message import Message
from topology.model.printable import printable

SEQUENCE, KIND, VOID = "sequitur-sequence", "sequitur-kind", "sequitur-void"
CAPTURED = "sequitur-captured-at"
"""Headers; the record's key is the stream, its timestamp the time of writing. When a message was
captured is in milliseconds since 1970."""


def headers_of(message: Message) -> list[tuple[str, bytes | None]]:
    """A message's headers on Kafka; that of the kind has no value where there is no kind."""
    found: list[tuple[str, bytes | None]] = [
        (name, value.encode()) for name, value in message.headers.items()
    ]
    found.append((SEQUENCE, b"%d" % message.sequence))
    found.append((CAPTURED, b"%d" % (message.captured_at * 1000)))
    found.append((KIND, None if message.kind is None else message.kind.encode()))
    return found


def missing_of(topic: str, value: bytes | None) -> MissingRange:
    """The request in a record of the topic `<topic>.resend`. Raises ValueError if it is none."""
    try:
        body = orjson.loads(value or b"")
        found = checked_missing(
            topic, body["stream"], body["first"], body["last"], body.get("view", ""),
            body.get("commands", ""), body.get("partition", 0),
        )  # fmt: skip
    except orjson.JSONDecodeError as error:
        raise ValueError(f"this is no request to resend: it is no JSON: {error}") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this is no request to resend: {printable(repr(error))}") from None
    except ValueError as error:
        raise ValueError(f"this is no request to resend: {error}") from None
    if found.commands and not found.commands.endswith(f".{found.view}.commands"):
        raise ValueError(
            f"{printable(repr(found.commands))} is not the command topic of view "
            f"{printable(repr(found.view))}"
        )
    return found
