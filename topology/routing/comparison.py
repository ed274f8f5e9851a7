"""What would go elsewhere under other rules, before anybody turns them on."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from topology.model.counted import counted
from topology.model.event import Message
from topology.routing.rule_set import RuleSet
from topology.routing.trail import Routing

MOST_KINDS = 1000
"""Kinds of differences that are counted one by one."""


@dataclass(slots=True)
class Comparison:
    """How two versions route the same messages.

    Attributes:
        old: the number of the one version.
        new: the number of the other.
        messages: how many there were.
        changes: (where it goes by the old rules, where by the new) → how many messages.
        others: messages that go elsewhere in further ways, which are not told one by one.
        failed: messages that fail by both, for the same reason.
        examples: the first of them with their trails, by the old and by the new rules.
    """

    old: int
    new: int
    messages: int = 0
    changes: Counter[tuple[str, str]] = field(default_factory=Counter)
    others: int = 0
    failed: int = 0
    examples: list[tuple[Routing, Routing]] = field(default_factory=list)

    @property
    def elsewhere(self) -> int:
        """How many messages go elsewhere, in another order, or fail for another reason."""
        return self.changes.total() + self.others

    def __str__(self) -> str:
        of = counted(self.messages, "message")
        lines = [f"{self.elsewhere:,} of {of} would go elsewhere by rules {self.new}"]
        lines += [f"  {n:,}: {old} → {new}" for (old, new), n in self.changes.most_common()]
        lines += [f"  {self.others:,} in other ways"] if self.others else []
        lines += [f"  {self.failed:,} fail by both"] if self.failed else []
        return "\n".join(lines)


def compare(
    old: RuleSet, new: RuleSet, messages: Iterable[Message], examples: int = 20
) -> Comparison:
    """Route messages by two versions of the rules.

    Args:
        old: the one version.
        new: the other.
        messages: they are read once, one by one.
        examples: how many of those that go elsewhere are kept with their trails.

    Returns:
        What differs.
    """
    found = Comparison(old.number, new.number)
    for message in messages:
        found.messages += 1
        before, after = old.tried(message), new.tried(message)
        kind = _goes(before), _goes(after)
        if kind[0] == kind[1]:
            found.failed += before.reason is not None
            continue
        if kind in found.changes or len(found.changes) < MOST_KINDS:
            found.changes[kind] += 1
        else:
            found.others += 1
        if len(found.examples) < examples:
            trails = old.tried(message, "all"), new.tried(message, "all")
            found.examples.append(trails)
    return found


def _goes(routing: Routing) -> str:
    if routing.reason is not None:
        return f"failed ({routing.reason})"
    return ", ".join(routing.destinations) or "nowhere"
