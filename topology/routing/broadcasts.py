"""Broadcasts: which listeners a rule reaches, and what a listener is told with the message."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from topology.model.errors import DeclarationError
from topology.model.names import checked_name, listed
from topology.model.printable import printable

Scope = Literal["unit", "site", "all sites"]
"""Whose listeners a broadcast reaches: those of the router's unit, of its site, or all."""
RULES_HEADER = "sequitur-rules"
"""The header of a routed message that names the version of the rules."""
BROADCAST = "sequitur-broadcast"
"""The header of a broadcast: its id, which begins with the site that it comes from."""
ACTION = "sequitur-action"
"""The header of a broadcast that names what it triggers."""
LIFETIMES = 1.0, 7 * 86_400.0
"""The shortest and the longest lifetime (s)."""
LONGEST_ID = 1_000
"""Bytes of a broadcast's id."""
MOST_ACTIONS = 100
"""Actions of a listener."""


@dataclass(frozen=True, slots=True)
class Listening:
    """That an endpoint is a listener: it gets broadcasts, too.

    Args:
        lifetime: seconds without a heartbeat after which it expires.
        session: under which it says that it lives; new with each registration.
        site: where it is; empty for that of the router.
        unit: the application that it belongs to; empty for that of the router.
        actions: names of those that a broadcast may trigger there.
        only: it gets broadcasts alone, and not what goes to its destination.

    Raises:
        DeclarationError: a value is wrong.
    """

    lifetime: float
    session: str
    site: str = ""
    unit: str = ""
    actions: tuple[str, ...] = ()
    only: bool = False

    def __post_init__(self) -> None:
        low, high = LIFETIMES
        if not (isinstance(self.lifetime, int | float) and low <= self.lifetime <= high):
            raise DeclarationError(f"listener: lifetime {self.lifetime!r}: from {low} to {high} s")
        object.__setattr__(self, "lifetime", float(self.lifetime))
        if not isinstance(self.only, bool):
            raise DeclarationError(f"listener: only={self.only!r}; give true or false")
        for what, name in (("site", self.site), ("unit", self.unit)):
            if name != "":
                checked_name(f"listener: {what}", name)
        session = self.session
        if not isinstance(session, str) or not session.isascii() or not 1 <= len(session) <= 100:
            raise DeclarationError("listener: session: up to 100 characters of ASCII")
        actions = tuple(dict.fromkeys(listed("listener: actions", self.actions, "give names")))
        if len(actions) > MOST_ACTIONS:
            raise DeclarationError(f"listener: {len(actions)} actions, of {MOST_ACTIONS} at most")
        for name in actions:
            checked_name("listener: action", name)
        object.__setattr__(self, "actions", actions)

    def __str__(self) -> str:
        where = f"site {self.site or 'of the router'}, unit {self.unit or 'of the router'}"
        return f"{where}, {self.lifetime:.0f} s, actions: {', '.join(self.actions) or 'none'}"


@dataclass(frozen=True, slots=True)
class Broadcast:
    """The outbound side of a broadcast rule.

    Args:
        rule: its name.
        scope: whose listeners it reaches.
        action: what it triggers where that is registered; None for a plain one.
        site: of the router.
        unit: the router.
    """

    rule: str
    scope: Scope
    action: str | None
    site: str
    unit: str

    @property
    def name(self) -> str:
        """What stands for its listeners among the destinations; no destination is called so."""
        return f"broadcast:{self.rule}"

    def reaches(self, listening: Listening | None) -> bool:
        """Whether it goes to an endpoint.

        Args:
            listening: of the endpoint; None if it is no listener.
        """
        if listening is None or self.scope == "all sites":
            return listening is not None
        here = (listening.site or self.site) == self.site
        return here and (self.scope == "site" or (listening.unit or self.unit) == self.unit)

    def triggers(self, listening: Listening | None) -> tuple[str, ...]:
        """Name what it triggers at a listener: its action, if that is registered there."""
        known = () if listening is None else listening.actions
        return (self.action,) if self.action in known and self.action is not None else ()


def checked_broadcast(what: str, scope: object, action: object) -> None:
    """Raises DeclarationError for a scope or an action that is none."""
    if scope is None and action is not None:
        raise DeclarationError(f"{what}: it has an action, but no broadcast; give its scope")
    if scope is not None and scope not in get_args(Scope):
        known = ", ".join(map(repr, get_args(Scope)))
        raise DeclarationError(f"{what}: broadcast = {printable(repr(scope))}; give {known}")
    if action is not None:
        checked_name(f"{what}: action", action)


def broadcast_of(headers: Iterable[tuple[str, bytes | None]]) -> tuple[str, tuple[str, ...]] | None:
    """The id of a broadcast and the actions that it triggers; None of another message.

    Args:
        headers: of a record that a router sent. Those that the message brought with it, which may
            be called the same, stand before the router's own.
    """
    own: dict[str, bytes] = {}
    for name, value in headers:
        if name == RULES_HEADER:
            own.clear()
        own[name] = value or b""
    if RULES_HEADER not in own or not 0 < len(own.get(BROADCAST, b"")) <= LONGEST_ID:
        return None
    actions = own.get(ACTION, b"").decode("ascii", "replace")
    return own[BROADCAST].decode("utf-8", "replace"), tuple(filter(None, actions.split(",")))


def broadcast_headers(
    site: str, unit: str, place: Iterable[object], actions: Iterable[str]
) -> list[tuple[str, bytes]]:
    """What tells a listener that a message is a broadcast; it stands behind all other headers.

    Args:
        site: that it comes from.
        unit: the router.
        place: what the message is known by: topic, partition, offset.
        actions: that it triggers there.
    """
    text = "/".join([site or "-", unit or "-", *map(str, place)])
    found = [(BROADCAST, text.encode())]
    if triggered := ",".join(actions):
        found.append((ACTION, triggered.encode()))
    return found
