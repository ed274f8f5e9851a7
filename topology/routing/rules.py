"""What is declared: rules, and the source topics that they are for."""

from collections.abc import Iterable
from dataclasses import dataclass

from topology.inspectors.fields import Header
from topology.model.errors import DeclarationError
from topology.model.names import checked_name, checked_topic, listed
from topology.routing.broadcasts import Scope, checked_broadcast
from topology.routing.conditions import AnyCondition, leaves
from topology.routing.routing_keys import RoutingKey, checked_key
from topology.routing.tables import checked_target


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: a message that meets all conditions goes where its tags, or the rule itself, say.

    Args:
        name: the rule's name.
        key: the key that gives the tags; None for a rule that needs none.
        keymap: the keymap that has the key's tags. Without one, the key's value is the tag; a
            header names several with commas between.
        when: conditions, which must all hold.
        outbound: the outbound table that has the tags' targets.
        otherwise: destinations of tags that are not in the outbound table.
        to: destinations of all messages that the rule is met by.
        then: rules that look next at all messages that this rule is met by.
        module: the introspection module that extracts the keys of this rule; that of the source
            unless given.
        broadcast: the scope of a rule whose messages go to every registered listener, which is
            not asked of a message that is a broadcast already.
        action: what that triggers at listeners that have registered it.

    Raises:
        DeclarationError: a name is wrong, or the rule leads nowhere.
    """

    name: str
    key: RoutingKey | None = None
    keymap: str | None = None
    when: tuple[AnyCondition, ...] = ()
    outbound: str | None = None
    otherwise: tuple[str, ...] = ()
    to: tuple[str, ...] = ()
    then: tuple[str, ...] = ()
    module: str | None = None
    broadcast: Scope | None = None
    action: str | None = None

    def __post_init__(self) -> None:
        what = f"rule {checked_name('rule', self.name)!r}"
        checked_broadcast(what, self.broadcast, self.action)
        if self.key is None and (self.keymap, self.outbound, self.otherwise) != (None, None, ()):
            raise DeclarationError(f"{what}: it has no key; give one to look up in a table")
        if self.key is not None:
            checked_key(what, self.key)
            if self.outbound is None and not self.otherwise:
                raise DeclarationError(f"{what}: its key leads nowhere; give an outbound table")
        elif not self.to and not self.then and self.broadcast is None:
            raise DeclarationError(f"{what}: it leads nowhere; give destinations or rules")
        conditions = (self.when,) if not isinstance(self.when, Iterable) else tuple(self.when)
        for leaf in leaves(what, conditions):
            checked_key(what, leaf.key)
        target = checked_target(what, listed("to", self.to, "names"), self.then)
        object.__setattr__(self, "when", conditions)
        object.__setattr__(self, "to", target.to)
        object.__setattr__(self, "then", target.then)
        object.__setattr__(self, "otherwise", checked_target(what, self.otherwise, ()).to)

    def named_keys(self) -> list[str]:
        """The keys that a module must extract."""
        used = [self.key, *(leaf.key for leaf in leaves(self.name, self.when))]
        return [key for key in used if isinstance(key, str)]

    def named_keymaps(self) -> list[str]:
        """The keymaps that the rule looks into."""
        used = [self.keymap, *(leaf.keymap for leaf in leaves(self.name, self.when))]
        return [keymap for keymap in used if keymap is not None]

    @property
    def names_tags(self) -> bool:
        """Whether messages name their tags themselves, in a header."""
        return self.keymap is None and isinstance(self.key, Header)


@dataclass(frozen=True, slots=True)
class RoutedSource:
    """A source topic: the rules that look at its messages first.

    Args:
        topic: the topic.
        rules: the rules, in order; others follow by `then`.
        module: the introspection module. Without one, keys are paths into JSON.
        format: of the topic's messages.
        before: transformations before routing, in order.
        after: transformations after routing, in order, if there is a destination.

    Raises:
        DeclarationError: a name is wrong, or there is no rule.
    """

    topic: str
    rules: tuple[str, ...]
    module: str | None = None
    format: str = "json"
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        what = f"source {checked_topic(self.topic)!r}"
        checked_name(f"{what}: format", self.format)
        rules = checked_target(what, (), self.rules).then
        if not rules:
            raise DeclarationError(f"{what}: name at least one rule")
        object.__setattr__(self, "rules", rules)
        for each in ("before", "after"):
            names = listed(each, getattr(self, each), "name transformations")
            object.__setattr__(self, each, names)
