"""A CloudEvent as a dictionary of attributes and data, however Kafka carries it.

Structured mode has the whole event as JSON in the record's value; binary mode has the attributes in
headers `ce_…`, the data's type in the header `content-type` and the data itself as the value.
"""

import re
from base64 import b64decode
from typing import Any

from topology.inspectors.decoded import decoded
from topology.model.errors import Malformed
from topology.model.event import Message
from topology.model.printable import printable

REQUIRED = ("id", "source", "type")

_FORMATS = frozenset(("application/cloudevents", "application/cloudevents+json"))
_MEDIA_TYPE = re.compile(r"[\w.!#$&^+-]+/[\w.!#$&^+-]+", re.ASCII)
_JSON = re.compile(r"[^/]+/([^/]+\+)?json")


def cloudevent(message: Message, default_type: str) -> dict[str, Any] | None:
    """The event's attributes that are set, and `data` if it has any; None for no CloudEvent.

    default_type: the data's media type where the event names none. Raises Malformed.
    """
    content_type, attributes = "", {}
    for name, value in message.headers:
        name = name.lower()
        if name == "content-type":
            content_type = _text(name, value) or ""
        elif name.startswith("ce_"):
            attributes[name[3:]] = value
    media = media_type(content_type)
    if media.startswith("application/cloudevents"):
        if media not in _FORMATS:
            raise Malformed(
                f"the event format {media!r} is not known; send application/cloudevents+json"
            )
        event = _structured(_object(message.value), default_type)
        if event is None:
            raise Malformed("the specversion is missing: no attribute 'specversion'")
    elif attributes.get("specversion") is not None:
        event = _binary(attributes, content_type, message.value, default_type)
    elif content_type or message.value is None:
        return None
    else:
        event = _structured(_object(message.value), default_type)
        if event is None:
            return None
    _check(event)
    return event


def media_type(content_type: str) -> str:
    """'Application/JSON; charset=utf-8' → 'application/json'."""
    return content_type.partition(";")[0].strip().lower()


def is_json(content_type: Any) -> bool:
    """Whether data of that type is JSON. Raises Malformed for what is no media type."""
    media = media_type(content_type) if isinstance(content_type, str) else ""
    if not _MEDIA_TYPE.fullmatch(media):
        raise Malformed(f"the datacontenttype {printable(content_type, 80)!r} is no media type")
    return _JSON.fullmatch(media) is not None


def _structured(body: dict[str, Any], default_type: str) -> dict[str, Any] | None:
    if body.get("specversion") is None:
        return None
    event = {name: value for name, value in body.items() if value is not None}
    encoded = event.pop("data_base64", None)
    declared = event.get("datacontenttype")
    if encoded is not None:
        if "data" in event:
            raise Malformed("the event has both data and data_base64")
        data = _from_base64(encoded)
        event["data"] = _json(data) if declared is not None and is_json(declared) else data
    elif "data" in body:
        kind = default_type if declared is None else declared
        data = body["data"]
        if not is_json(kind) and not isinstance(data, str | None):
            raise Malformed(
                f"the data is a {type(data).__name__}; as {kind!r} in a JSON event it must be text"
            )
        event["data"] = data
    return event


def _binary(
    attributes: dict[str, Any], content_type: str, value: bytes | None, default_type: str
) -> dict[str, Any]:
    event: dict[str, Any] = {}
    for name, raw in attributes.items():
        text = _text(f"ce_{name}", raw)
        if text is not None and name not in ("data", "data_base64"):
            event[name] = text
    if content_type:
        event["datacontenttype"] = content_type
    if value is not None:
        declared = event.get("datacontenttype", default_type)
        event["data"] = _json(value) if is_json(declared) else value
    return event


def _check(event: dict[str, Any]) -> None:
    """Raises Malformed for what the specification does not let pass as a CloudEvent."""
    version = event["specversion"]
    if not isinstance(version, str) or not version.startswith("1."):
        raise Malformed(f"the specversion is {printable(version, 80)!r}; 1.0 is known")
    for name in REQUIRED:
        value = event.get(name)
        if value is None:
            raise Malformed(f"the {name} is missing: no attribute {name!r}")
        if not isinstance(value, str) or not value:
            raise Malformed(f"the attribute {name!r} is {printable(value, 80)!r}; it must be text")


def _text(name: str, value: bytes | None) -> str | None:
    """A header's value; Kafka lets it be null."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Malformed(f"the header {name!r} is not UTF-8") from None


def _object(value: bytes | None) -> dict[str, Any]:
    if value is None:
        raise Malformed("the value is null")
    body = decoded(value)
    if not isinstance(body, dict):
        raise Malformed(f"the value is a JSON {type(body).__name__}; a CloudEvent is an object")
    return body


def _json(data: bytes) -> Any:
    return decoded(data, "the data is not JSON as its datacontenttype says")


def _from_base64(text: Any) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (TypeError, ValueError):
        raise Malformed("the data_base64 is not Base64") from None
