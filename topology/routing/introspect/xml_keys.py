"""Routing keys out of XML, by paths. Document types are refused, and with them all entities."""

import re
from collections.abc import Iterable, Mapping
from typing import Any
from xml.parsers import expat

from topology.model.errors import DeclarationError, Malformed, described
from topology.model.event import Message
from topology.model.printable import printable
from topology.routing.introspect.key_module import (
    Introspect,
    KeyModule,
    Memo,
    checked_every,
    checked_keys,
)
from topology.routing.introspect.key_values import (
    LONGEST,
    MOST_VALUES,
    Keys,
    checked_content,
    collected,
)

DEEPEST = 100
"""How deep elements may be nested."""

_PATH = re.compile(r"/?[^\s/@]+(/[^\s/@]+)*(/@[^\s/@]+)?")


class XmlKeys(KeyModule):
    """Extracts routing keys from XML, by element paths. Prefixes of names are left out.

    Args:
        keys: name of the key → path from the root, as in `"order/customer"` for an element's own
            text, or `"order/@id"` for an attribute.
        every: keys that take all occurrences; others take the first.
        reads: the format's name.

    Raises:
        DeclarationError: a name or a path is wrong.
    """

    def __init__(
        self, keys: Mapping[str, str], *, every: Iterable[str] = (), reads: str = "xml"
    ) -> None:
        self.keys = checked_keys("XmlKeys", keys)
        for name, path in self.keys.items():
            if not isinstance(path, str) or not _PATH.fullmatch(path):
                raise DeclarationError(
                    f"XmlKeys: key {name!r}: {path!r} is no path; write 'order/customer' or "
                    "'order/@id'"
                )
        self.every = checked_every("XmlKeys", every, keys)
        self.names, self.reads = tuple(self.keys), reads

    def compile(self) -> Introspect:
        """Return the module as one function of a message."""
        texts: dict[str, list[str]] = {}
        attributes: dict[str, list[tuple[str, str]]] = {}
        for name, path in self.keys.items():
            element, _, attribute = f"/{path.lstrip('/')}".partition("/@")
            if attribute:
                attributes.setdefault(element, []).append((name, attribute))
            else:
                texts.setdefault(element, []).append(name)
        every = self.every

        def introspect(message: Message, memo: Memo) -> Keys:
            found: dict[str, list[str]] = {}
            _parse(checked_content(message.value), texts, attributes, found)
            return collected(every, found)

        return introspect


def _parse(
    value: bytes,
    texts: dict[str, list[str]],
    attributes: dict[str, list[tuple[str, str]]],
    found: dict[str, list[str]],
) -> None:
    """Put what is at the paths into `found`. Raises Malformed."""
    paths, parts = [""], [[""]]
    parser = expat.ParserCreate()
    parser.buffer_text = True

    def add(name: str, text: str) -> None:
        values = found.setdefault(name, [])
        if len(values) <= MOST_VALUES:  # one more shows that there are too many
            values.append(text)

    def start(tag: str, given: dict[str, str]) -> None:
        if len(paths) > DEEPEST:
            raise Malformed(f"the XML is nested deeper than {DEEPEST} elements")
        path = f"{paths[-1]}/{tag.rpartition(':')[2]}"
        if len(path) > LONGEST:
            raise Malformed(f"the XML has a path of more than {LONGEST} characters")
        paths.append(path)
        parts.append([])
        if path in attributes:
            kept = {key: text for key, text in given.items() if not key.startswith("xmlns:")}
            local = {key.rpartition(":")[2]: text for key, text in kept.items()} | kept
            for name, attribute in attributes[path]:
                if attribute in local:
                    add(name, local[attribute])

    def text(data: str) -> None:
        if paths[-1] in texts:
            parts[-1].append(data)

    def end(_: str) -> None:
        path, own = paths.pop(), "".join(parts.pop()).strip()
        if own:
            for name in texts.get(path, ()):
                add(name, own)

    def refuse(*_: Any) -> None:
        raise Malformed("the XML has a document type, which may hold entities; send it without")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    try:
        parser.Parse(value, True)
    except Malformed:
        raise
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise Malformed(f"the value is not XML: {printable(described(error))}") from None
