"""The formats of the destinations: as the router writes them, and as they are read again."""

import csv
import io
from xml.etree import ElementTree

import orjson

from flight_routing.departures import CONTENT
from topology import Message


def to_csv(content: bytes, message: Message) -> bytes:
    """A departure as a line of CSV."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(orjson.loads(content).values())
    return line.getvalue().encode()


def to_xml(content: bytes, message: Message) -> bytes:
    """A departure as an XML element."""
    values = {name: str(value) for name, value in orjson.loads(content).items()}
    made: bytes = ElementTree.tostring(ElementTree.Element("departure", values))
    return made


def parsed(content: bytes) -> tuple[str, ...]:
    """The values of a departure, in the order of CONTENT, of whichever format."""
    if content.startswith(b"{"):
        return tuple(map(str, orjson.loads(content).values()))
    if content.startswith(b"<"):
        found = ElementTree.fromstring(content).attrib
        return tuple(found[name] for name in CONTENT)
    (row,) = csv.reader([content.decode()])
    return tuple(row)
