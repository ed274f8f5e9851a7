"""The frames between consumers and owners: JSON over a WebSocket, of limited size.

A consumer opens one WebSocket for each member. Its first frame is `hello`; then it grants credit
(`want`), completes and returns deliveries by their numbers, and beats. The owner answers each.
"""

import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

import orjson

PATH = "/units"
FRAME_BYTES = 8 << 20
"""The largest frame of a consumer; an owner's frames end where they pass a part of it."""
DELIVERY_BYTES = 128 << 20
"""The largest frame of an owner: a single message may be that large."""
NUMBERS = 10_000
"""Deliveries that one frame may speak of, and that a session may hold."""
SENDS = 1_000
"""Messages that a transacted completion may send."""
TOKEN_LENGTH = 16
"""The least characters that a token has."""
SESSION_LENGTH = 128
"""Characters of a session's name."""

Frame = dict[str, Any]


class FrameError(ValueError):
    """A frame that is not one of the protocol."""


def encode(kind: str, **fields: object) -> bytes:
    """A frame's bytes."""
    return orjson.dumps({"t": kind, **fields})


def decode(data: str | bytes, most: int = FRAME_BYTES) -> Frame:
    """A frame. Raises FrameError for what is none."""
    if len(data) > most:
        raise FrameError(f"a frame has at most {most} bytes")
    try:
        found = orjson.loads(data)
    except ValueError:
        raise FrameError("a frame is JSON") from None
    if not isinstance(found, dict) or not isinstance(found.get("t"), str):
        raise FrameError("a frame is an object with a text 't'")
    return found


def number(frame: Mapping[str, Any], name: str, most: float, default: float | None = None) -> float:
    """A number of at least 0 in a frame. Raises FrameError."""
    found = frame.get(name, default)
    if not isinstance(found, int | float) or isinstance(found, bool) or not 0 <= found <= most:
        raise FrameError(f"{name} is a number from 0 to {most}")
    return found


def numbers(frame: Mapping[str, Any], name: str) -> list[int]:
    """Whole numbers in a frame. Raises FrameError."""
    found = frame.get(name, [])
    if (
        not isinstance(found, list)
        or len(found) > NUMBERS
        or not all(type(each) is int and 0 <= each < 1 << 63 for each in found)
    ):
        raise FrameError(f"{name} is a list of at most {NUMBERS} whole numbers")
    return found


def text(frame: Mapping[str, Any], name: str, length: int) -> str:
    """A text in a frame. Raises FrameError."""
    found = frame.get(name)
    if not isinstance(found, str) or not 0 < len(found) <= length:
        raise FrameError(f"{name} is a text of 1 to {length} characters")
    return found


def texts(frame: Mapping[str, Any], name: str) -> dict[str, str] | None:
    """Texts by name, or None. Raises FrameError."""
    found = frame.get(name)
    if found is None:
        return None
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise FrameError(f"{name} is an object of texts")
    return found


def packed(content: bytes | None) -> str | None:
    """Bytes as a frame carries them."""
    return None if content is None else b64encode(content).decode()


def unpacked(content: object) -> bytes | None:
    """Bytes of a frame. Raises FrameError."""
    if content is None:
        return None
    if not isinstance(content, str):
        raise FrameError("content is base64")
    try:
        return b64decode(content, validate=True)
    except ValueError:
        raise FrameError("content is base64") from None


def authorised(header: str, token: str) -> bool:
    """Whether the header `Authorization` bears the token."""
    return hmac.compare_digest(header.encode("utf-8", "replace"), bearer(token).encode())


def bearer(token: str) -> str:
    """The header's value."""
    return f"Bearer {token}"
