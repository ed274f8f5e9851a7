"""Formats: transformations between them, who wants which, and who makes it when."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from topology.model.closest import closest
from topology.model.errors import DeclarationError, Malformed
from topology.model.event import Message
from topology.model.names import checked_name
from topology.routing.broadcasts import Broadcast, Listening
from topology.routing.transformations import Transformation, known, run


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What takes a destination's messages, in a format of its own.

    Args:
        name: the endpoint's name.
        destination: whose messages it takes.
        format: the format that it reads; None for whatever comes.
        listening: that it gets broadcasts, too; None if it does not.

    Raises:
        DeclarationError: a name is wrong.
    """

    name: str
    destination: str
    format: str | None = None
    listening: Listening | None = None

    def __post_init__(self) -> None:
        checked_name("endpoint", self.name)
        checked_name(f"endpoint {self.name!r}: destination", self.destination)
        if self.format is not None:
            checked_name(f"endpoint {self.name!r}: format", self.format)
        if self.listening is not None and self.listening.only and self.name == self.destination:
            raise DeclarationError(
                f"endpoint {self.name!r}: it is called as its destination, whose topic has all "
                "messages; name it otherwise, or let it get them too"
            )


@dataclass(slots=True)
class Made:
    """A message as one endpoint gets it.

    Attributes:
        endpoint: the endpoint's name.
        destination: the destination.
        format: of the content.
        content: the bytes; None if the message has none.
        broadcast: what it triggers, of a broadcast; None of another message.
    """

    endpoint: str
    destination: str
    format: str
    content: bytes | None
    broadcast: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class FormatPlan:
    """What is made of messages after routing, and for whom.

    Attributes:
        start: the format after routing.
        after: transformations that all endpoints share; they run once, after routing.
        chains: format → transformations that make it of what `after` gives.
        users: format → the endpoints that read it.
    """

    start: str
    after: tuple[str, ...]
    chains: Mapping[str, tuple[str, ...]]
    users: Mapping[str, tuple[str, ...]]

    @property
    def used(self) -> frozenset[str]:
        """The transformations that run at all."""
        return frozenset((*self.after, *(name for chain in self.chains.values() for name in chain)))


class Formats:
    """Transformations and endpoints; it does not change: `register` and `without` return another.

    Args:
        transformations: the plug-ins. Where several make a format, the shortest way is taken; of
            equally short ones, that whose transformations are named first here.
        endpoints: who reads what.
        broadcasts: of the rules.

    Raises:
        DeclarationError: a name is there twice.
    """

    def __init__(
        self,
        transformations: Iterable[Transformation] = (),
        endpoints: Iterable[Endpoint] = (),
        broadcasts: Iterable[Broadcast] = (),
    ) -> None:
        self.transformations = _by_name("transformation", transformations)
        self.endpoints = _by_name("endpoint", endpoints)
        self._at: dict[str, list[Endpoint]] = {}
        for endpoint in self.endpoints.values():
            if endpoint.listening is None or not endpoint.listening.only:
                self._at.setdefault(endpoint.destination, []).append(endpoint)
        self.broadcasts = {each.name: each for each in broadcasts}
        for name, each in self.broadcasts.items():
            own = [one for one in self.endpoints.values() if each.reaches(one.listening)]
            if own:
                self._at[name] = own
        self._ways: dict[str, dict[str, tuple[Transformation, ...]]] = {}

    def register(self, endpoint: Endpoint) -> "Formats":
        """Return the formats with an endpoint, in place of another of its name.

        Args:
            endpoint: the endpoint.
        """
        kept = {**self.endpoints, endpoint.name: endpoint}
        return Formats(self.transformations.values(), kept.values(), self.broadcasts.values())

    def without(self, endpoint: str) -> "Formats":
        """Return the formats without an endpoint.

        Args:
            endpoint: its name.

        Raises:
            DeclarationError: there is no such endpoint.
        """
        known(endpoint, self.endpoints, "formats", "endpoint")
        kept = [each for each in self.endpoints.values() if each.name != endpoint]
        return Formats(self.transformations.values(), kept, self.broadcasts.values())

    def plan(self, start: str, destinations: Iterable[str]) -> FormatPlan:
        """What is made of a format for the endpoints of destinations.

        Args:
            start: the format after routing.
            destinations: which destinations messages of that format may go to.

        Returns:
            The plan: what all endpoints share is in `after`.

        Raises:
            DeclarationError: no transformations lead to a format that an endpoint reads.
        """
        users: dict[str, list[str]] = {}
        ways = self._from(start)
        for endpoint in (each for name in destinations for each in self._of(name)):
            wanted = endpoint.format or start
            if wanted not in ways:
                raise DeclarationError(
                    f"endpoint {endpoint.name!r} of destination {endpoint.destination!r} reads "
                    f"{wanted!r}, but gets {start!r}, and no transformations lead from there"
                    f"{closest(wanted, ways)}"
                )
            users.setdefault(wanted, []).append(endpoint.name)
        chains = {wanted: tuple(step.name for step in ways[wanted]) for wanted in users}
        shared = 0
        for steps in zip(*chains.values(), strict=False):
            if len(set(steps)) > 1:
                break
            shared += 1
        after = next(iter(chains.values()), ())[:shared]
        rest = {wanted: chain[shared:] for wanted, chain in chains.items()}
        return FormatPlan(start, after, rest, {each: tuple(names) for each, names in users.items()})

    def make(
        self, start: str, destinations: Iterable[str], content: bytes | None, message: Message
    ) -> list[Made]:
        """Make what the endpoints of destinations get; each transformation runs once.

        Args:
            start: the content's format.
            destinations: where the message goes.
            content: what routing gave.
            message: the message as it came.

        Raises:
            Malformed: a transformation failed.
        """
        ways, made = self._from(start), {start: content}
        found: list[Made] = []
        broadcasts = self.broadcasts
        for destination in destinations:
            broadcast = broadcasts.get(destination) if broadcasts else None
            for endpoint in self._of(destination):
                wanted = endpoint.format or start
                if wanted not in made:
                    if wanted not in ways:
                        raise Malformed(f"endpoint {endpoint.name!r}: nothing makes {wanted!r}")
                    for step in ways[wanted]:
                        if step.writes not in made:
                            made[step.writes] = run(step, made[step.reads], message)
                actions = None if broadcast is None else broadcast.triggers(endpoint.listening)
                where = endpoint.destination
                found.append(Made(endpoint.name, where, wanted, made[wanted], actions))
        return _once(found) if broadcasts else found

    def _of(self, destination: str) -> Sequence[Endpoint]:
        """A destination's endpoints; one that reads whatever comes if none is registered."""
        return self._at.get(destination) or (Endpoint(destination, destination),)

    def _from(self, start: str) -> dict[str, tuple[Transformation, ...]]:
        """Format → the shortest way to it. It is a tree: a format has one transformation."""
        if (known_ways := self._ways.get(start)) is not None:
            return known_ways
        ways: dict[str, tuple[Transformation, ...]] = {start: ()}
        ahead = deque([start])
        while ahead:
            at = ahead.popleft()
            for step in self.transformations.values():
                if step.reads == at and step.writes not in ways:
                    ways[step.writes] = (*ways[at], step)
                    ahead.append(step.writes)
        self._ways[start] = ways
        return ways


def _once(found: Iterable[Made]) -> list[Made]:
    """One of each endpoint: it may get a message both as a listener and as what it is besides."""
    once: dict[str, Made] = {}
    for each in found:
        before = once.setdefault(each.endpoint, each)
        if each.broadcast is not None and before is not each:
            actions = dict.fromkeys((*(before.broadcast or ()), *each.broadcast))
            once[each.endpoint] = replace(before, broadcast=tuple(actions))
    return [*once.values()]


def _by_name(kind: str, given: Iterable[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in given:
        if each.name in found:
            raise DeclarationError(f"{kind} {each.name!r} is there twice; rename one of them")
        found[each.name] = each
    return found
