"""Why a message went where it went: the trail of its routing, as data and as text."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from topology.model.event import Message
from topology.model.printable import printable
from topology.routing.broadcasts import RULES_HEADER
from topology.routing.compiled import CompiledRule, CompiledTarget
from topology.routing.conditions import AnyCondition, Condition, leaves
from topology.routing.introspect.key_values import Keys
from topology.routing.routing_keys import key_name, tags_of, value_of, value_shown

Outcome = Literal["routed", "unrouted", "failed"]
Detail = Literal["none", "fired", "all"]
"""How much a trail tells: there is none, the rules that fired, or all."""
Look = tuple[CompiledRule, Keys, tuple[str, ...], list[CompiledTarget], AnyCondition | None]
"""A rule that looked, the keys that it saw, its tags and targets, the condition that failed."""


@dataclass(slots=True)
class RuleStep:
    """What became of one rule.

    Attributes:
        rule: its name.
        fired: whether it led anywhere.
        why: why it fired or not; empty in a trail of detail fired.
        tags: the tags that it found.
        to: the destinations that it gave.
        then: the rules that look next.
        module: the rule's own module, None if it has none.
        keys: what that module found.
    """

    rule: str
    fired: bool
    why: str
    tags: tuple[str, ...]
    to: tuple[str, ...]
    then: tuple[str, ...]
    module: str | None
    keys: Keys


class Trail:
    """How a message was routed. It costs little until it is read.

    Args:
        message: the message.
        version: of the rules.
        detail: how much it tells.
        module: the source's introspection module; empty if it needs none.
        looks: the rules that looked, as they decided.
    """

    __slots__ = ("_detail", "_looks", "_message", "found", "module", "version")

    def __init__(
        self, message: Message, version: int, detail: Detail, module: str, looks: list[Look]
    ) -> None:
        self._message, self._detail, self._looks = message, detail, looks
        self.version, self.module = version, module
        self.found: Keys = {}

    @property
    def steps(self) -> list[RuleStep]:
        """The rules that looked, in order; in a trail of detail fired only those that fired."""
        every = self._detail == "all"
        return [self._step(*look, every) for look in self._looks if every or look[3]]

    def as_dict(self) -> dict[str, Any]:
        """The trail as plain data, for JSON."""
        every = self._detail == "all"
        return {
            "module": self.module,
            "keys": _named(self.found) if every else {},
            "rules": [asdict(step) for step in self.steps],
        }

    def _step(
        self,
        at: CompiledRule,
        keys: Keys,
        tags: tuple[str, ...],
        targets: list[CompiledTarget],
        failed: AnyCondition | None,
        every: bool,
    ) -> RuleStep:
        own = every and at.introspect is not None
        return RuleStep(
            at.rule.name,
            bool(targets),
            _why(at, keys, self._message, tags, targets, failed) if every else "",
            tags,
            tuple(dict.fromkeys(name for target in targets for name in target.to)),
            tuple(dict.fromkeys(name for target in targets for name in target.target.then)),
            at.rule.module if own else None,
            _named(keys) if own else {},
        )


@dataclass(slots=True)
class Routing:
    """Where a message goes.

    Attributes:
        version: of the rules that it was routed by.
        message: the message, as it is after the transformations before routing.
        destinations: each once, in order.
        reason: why it failed; None if it did not.
        trail: how it came to that; None unless it was asked for.
    """

    version: int
    message: Message
    destinations: tuple[str, ...]
    reason: str | None = None
    trail: Trail | None = None

    @property
    def outcome(self) -> Outcome:
        """`"routed"`, `"unrouted"` (there is no destination) or `"failed"`."""
        if self.reason is not None:
            return "failed"
        return "routed" if self.destinations else "unrouted"

    @property
    def header(self) -> tuple[str, bytes]:
        """The header that names the version, for the messages that are sent."""
        return RULES_HEADER, b"%d" % self.version

    def as_dict(self) -> dict[str, Any]:
        """The routing and its trail as plain data, for JSON."""
        message = self.message
        return {
            "topic": message.topic,
            "partition": message.partition,
            "offset": message.offset,
            "version": self.version,
            "outcome": self.outcome,
            "destinations": list(self.destinations),
            "reason": self.reason,
            "trail": None if self.trail is None else self.trail.as_dict(),
        }

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def _lines(routing: Routing) -> Iterator[str]:
    message, trail = routing.message, routing.trail
    where = f"{printable(message.topic)}/{message.partition}/{message.offset}"
    to = ", ".join(routing.destinations)
    end = {"routed": f"to {to}", "unrouted": "to nowhere", "failed": f"failed: {routing.reason}"}
    yield f"{where} {end[routing.outcome]} (rules {routing.version})"
    if trail is None:
        return
    if trail.module:
        yield f"  module {trail.module}: {_shown(trail.as_dict()['keys'])}"
    for step in trail.steps:
        because = f": {step.why}" if step.why else ""
        yield f"  rule {step.rule} {'fired' if step.fired else 'did not fire'}{because}"
        if step.module is not None:
            yield f"    module {step.module}: {_shown(step.keys)}"
        if step.tags:
            yield f"    tags {', '.join(map(printable, step.tags))}"
        if step.to:
            yield f"    → {', '.join(step.to)}"
        if step.then:
            yield f"    then rules {', '.join(step.then)}"


def _named(keys: Keys) -> Keys:
    """Keys as JSON may have them: a user's function names them as it likes."""
    return {printable(name): value for name, value in keys.items()}


def _shown(keys: Keys) -> str:
    parts = (f"{name}={printable(repr(value), 60)}" for name, value in keys.items())
    return ", ".join(parts) or "no keys"


def _why(
    at: CompiledRule,
    keys: Keys,
    message: Message,
    tags: tuple[str, ...],
    targets: list[CompiledTarget],
    failed: AnyCondition | None,
) -> str:
    rule = at.rule
    if failed is not None:
        are = dict.fromkeys(_is(at, each, keys, message) for each in leaves("", (failed,)))
        return f"{failed} does not hold, as {' and '.join(are)}"
    held = "all conditions hold" if at.tests else "it has no condition"
    if at.value is None:
        return held
    key = f"{key_name(rule.key)} is {value_shown(at.value, keys, message)}"
    if targets:
        return f"{held}, {key}"
    if not tags:
        return key if rule.keymap is None else f"{key}, for which keymap {rule.keymap} has no tag"
    return f"{key}, and outbound table {rule.outbound} has none of its tags"


def _is(at: CompiledRule, condition: Condition, keys: Keys, message: Message) -> str:
    value = value_of(condition.key)
    found = f"{key_name(condition.key)} is {value_shown(value, keys, message)}"
    if condition.keymap is None:
        return found
    tags = tags_of(value, at.keymaps[condition.keymap])
    return f"{found}, of which keymap {condition.keymap} says {value_shown(tags, keys, message)}"
