"""Records of a segment: length, checksum, content. Pure.

    length of the body: 4 bytes │ checksum: 4 bytes │ body

The checksum takes in the record's offset and length, so that a record at another's place, and a
page of zeros, are damage too; and behind damage the next record can be found.
"""

import struct
import zlib
from collections.abc import Iterable

import orjson

from stores.segments.errors import SegmentDamaged
from stores.segments.message import OutboundMessage

HEAD = struct.Struct(">II")
_LENGTHS = struct.Struct(">Ii")
_PLACE = struct.Struct(">QI")
_BRACKET = HEAD.size + _LENGTHS.size
MAX_BODY = 100_000_000


def encode(messages: Iterable[OutboundMessage], offset: int) -> bytes:
    """Write messages as records."""
    parts: list[bytes] = []
    for message in messages:
        body = _body(message)
        parts += (HEAD.pack(len(body), _checksum(offset, body)), body)
        offset += HEAD.size + len(body)
    return b"".join(parts)


def check_writable(message: OutboundMessage) -> None:
    """Raise ValueError or TypeError for a message that no record can hold."""
    content, headers = (message.value, message.key), message.headers
    if not all(isinstance(each, bytes | None) for each in content):
        raise TypeError(f"message {message.id}: its value and key are bytes, or None")
    if not isinstance(message.destination, str):
        raise TypeError(f"message {message.id}: its destination is text")
    if not all(isinstance(name, str) and isinstance(value, bytes) for name, value in headers):
        raise TypeError(f"message {message.id}: its headers are pairs of text and bytes")
    size = len(message.value or b"") + len(message.key or b"") + len(_meta(message))
    if size > MAX_BODY - _LENGTHS.size:
        raise ValueError(f"message {message.id}: {size} bytes; {MAX_BODY} are the limit")


def record_at(data: bytes, at: int, offset: int) -> bytes | None:
    """Return the body of the record at `at`, None where no whole and intact one is."""
    if at + HEAD.size > len(data):
        return None
    length, checksum = HEAD.unpack_from(data, at)
    if length > MAX_BODY or at + HEAD.size + length > len(data):
        return None
    body = data[at + HEAD.size : at + HEAD.size + length]
    return body if _checksum(offset, body) == checksum else None


def length_at(data: bytes, at: int) -> int:
    """Return how many bytes the record at `at` says that it has, with its head."""
    return HEAD.size + int(HEAD.unpack_from(data, at)[0])


def next_intact(data: bytes, offset: int) -> int:
    """Return the offset of the first intact record behind damage, the end if there is none."""
    at = 0
    # A body's content begins with the bracket of a JSON list, which saves most of the checksums.
    while (at := data.find(b"[", at + 1 + _BRACKET) - _BRACKET) > 0:
        if record_at(data, at, offset + at) is not None:
            return offset + at
    return offset + len(data)


def decode(body: bytes, transport: str) -> OutboundMessage:
    """Read a message.

    Raises:
        SegmentDamaged: it is intact, and no message; another version may have written it.
    """
    try:
        meta_length, key_length = _LENGTHS.unpack_from(body)
        key_at = _LENGTHS.size + meta_length
        value_at = key_at + max(key_length, 0)
        id, destination, named, stream, sequence, null = orjson.loads(body[_LENGTHS.size : key_at])
        headers = tuple((name, value.encode("latin-1")) for name, value in named)
    except (struct.error, ValueError, TypeError) as error:
        raise SegmentDamaged(
            "no message that this version reads; publish it with the one that wrote it, or call "
            f"stores.segments.skip_damage(..., intact=True), which loses it: {error}"
        ) from None
    key = None if key_length < 0 else body[key_at:value_at]
    value = None if null else body[value_at:]
    return OutboundMessage(transport, destination, value, key, headers, stream, sequence, id)


def _body(message: OutboundMessage) -> bytes:
    meta, key = _meta(message), message.key
    lengths = _LENGTHS.pack(len(meta), -1 if key is None else len(key))
    return b"".join((lengths, meta, key or b"", message.value or b""))


def _meta(message: OutboundMessage) -> bytes:
    named = [(name, value.decode("latin-1")) for name, value in message.headers]
    order, null = (message.stream, message.sequence), message.value is None
    return orjson.dumps((message.id, message.destination, named, *order, null))


def _checksum(offset: int, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(_PLACE.pack(offset, len(body))))
