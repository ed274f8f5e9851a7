"""Where a message was published first, and which messages go to other sites. Pure.

A copy has the header `sequitur-origin`: cluster id/topic/partition/offset of what it is a copy of.
Topics of Sequitur's own have one of another form, which stays.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from topology.model.origin_headers import ORIGIN

PASSED = "sequitur-sites"
"""The header with the cluster ids of the sites that a copy has passed, joined by commas."""
REPLAY = "sequitur-replay"
"""The header of what a replay published again."""
DAY = "sequitur-day"
"""The header of what ends a day of a topic; without headers, the content `{"…": "id"}`."""

_TEXT = re.compile(rb"(.{1,256})/([^/]+)/([0-9]{1,9})/([0-9]{1,18})")

Headers = Sequence[tuple[str, bytes | None]]


class Origin(NamedTuple):
    """The first publication of a message: it has the same one at all sites, for ever.

    Attributes:
        cluster: id of the site's Kafka cluster.
        topic: there, and at all sites.
        partition: there, and at all sites.
        offset: there.
    """

    cluster: str
    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return "/".join(map(str, self))


def origin_of(headers: Headers, topic: str) -> Origin | None:
    """The origin of a copy in a topic, None for what was published here.

    What an application derived from a copy, and gave the copy's headers, has the name of another
    topic in it: that was published here.
    """
    return next(filter(None, (_origin(header, topic) for header in headers)), None)


def _origin(header: tuple[str, bytes | None], topic: str) -> Origin | None:
    match = _TEXT.fullmatch(header[1] or b"") if header[0] == ORIGIN else None
    if match is None or match[2] != topic.encode():
        return None
    return Origin(match[1].decode("utf-8", "replace"), topic, *map(int, match.group(3, 4)))


def is_forwarded(headers: Headers, value: bytes | None, topic: str) -> bool:
    """Whether a message goes to other sites: not a copy, a replay, or the end of a day here."""
    if any(name in (REPLAY, DAY) for name, _ in headers):
        return False
    if not headers:
        return value is None or not value.startswith(b'{"%s"' % DAY.encode())
    return origin_of(headers, topic) is None


def passed(headers: Headers) -> tuple[str, ...]:
    """The cluster ids of the sites that a message has passed."""
    return tuple(
        each
        for name, value in headers
        if name == PASSED and value
        for each in value.decode("utf-8", "replace").split(",")
    )


def headers_of_copy(headers: Headers, origin: Origin, by: str) -> Headers:
    """The headers that a message has elsewhere: its own, where it comes from, what it passed.

    Args:
        headers: those that it has.
        origin: its first publication.
        by: cluster id of the site from which it is copied.
    """
    own = [each for each in headers if each[0] != PASSED and not _origin(each, origin.topic)]
    # Of what was published at `by`, it can only be that of a message which this one came of.
    sites = dict.fromkeys((*(() if origin.cluster == by else passed(headers)), by))
    # Not last: there Sequitur's own topics have the ORIGIN of their own form.
    return [*own, (ORIGIN, str(origin).encode()), (PASSED, ",".join(sites).encode())]
