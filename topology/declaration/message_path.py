"""The path of a view's messages, as its verbs declare it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from topology.routing import RuleSet, Transformation


@dataclass(frozen=True, slots=True, eq=False)
class MessagePath:
    """What becomes of messages that a view sends, instead of their being written as they are.

    Attributes:
        sent_to: the topic in whose place it is; None for all topics that the rules read, or for all
            if there are no rules.
        before: transformations, before routing.
        rules: by which they are routed, None if they are not.
        after: transformations, after routing.
        to: destination → topic; without rules, the one topic under an empty name.
    """

    sent_to: str | None = None
    before: tuple[Transformation, ...] = ()
    rules: RuleSet | None = None
    after: tuple[Transformation, ...] = ()
    to: Mapping[str, str] = field(default_factory=dict)

    def takes(self, topic: str) -> bool:
        """Whether a message that a handler sends to a topic takes this path."""
        if self.sent_to is not None:
            return topic == self.sent_to
        return self.rules is None or topic in self.rules.sources
