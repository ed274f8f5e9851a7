"""Rules as functions: what a message needs is looked up once, when the rules are loaded."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from topology.inspectors.fields import Header, header
from topology.model.event import Message
from topology.routing.broadcasts import BROADCAST
from topology.routing.conditions import AnyCondition, Test, compile_condition, when
from topology.routing.introspect.key_module import Introspect
from topology.routing.introspect.key_values import Keys
from topology.routing.routing_keys import Value, listed_in_header, tags_of, value_of
from topology.routing.rules import Rule
from topology.routing.tables import Keymap, Target

NOT_AGAIN = when(header(BROADCAST), exists=False)
"""What a message must meet to be broadcast: that it is not a broadcast already, of any site."""


@dataclass(slots=True, eq=False)
class CompiledRule:
    """A rule as functions. What is from `outbound` on is filled in when all rules are compiled.

    shared: whether several arrows lead to the rule, so that it might look twice. fired: how often
    it led anywhere; what is routed again, for its trail or after a failure, counts again.
    """

    rule: Rule
    introspect: Introspect | None
    tests: tuple[tuple[Test, AnyCondition], ...]
    value: Value | None
    tags: Callable[[Keys, Message], tuple[str, ...]] | None
    outbound: "dict[str, CompiledTarget]"
    otherwise: "CompiledTarget | None"
    always: "list[CompiledTarget]"
    shared: bool
    keymaps: Mapping[str, Keymap]
    fired: int = 0


@dataclass(slots=True, eq=False)
class CompiledTarget:
    """Where a tag leads. then: the rules, the last first, as they are put on the pile."""

    target: Target
    to: tuple[str, ...]
    then: tuple[CompiledRule, ...] = ()


@dataclass(slots=True, eq=False)
class CompiledSource:
    """What is done with the messages of a topic. first: the rules, the last first."""

    module: str
    introspect: Introspect | None
    first: tuple[CompiledRule, ...]


def compile_rules(
    rules: Mapping[str, Rule],
    keymaps: Mapping[str, Keymap],
    outbound: Mapping[str, Mapping[str, Target]],
    modules: Mapping[str, Introspect],
    starts: Iterable[str],
    broadcasts: Mapping[str, tuple[str, ...]],
) -> dict[str, CompiledRule]:
    """Rules, whose names are all known and in which there is no circle, as functions.

    starts: the rules that sources begin with, as often as they do. broadcasts: of each broadcast
    rule, what stands for its listeners, if there are any.
    """
    compiled = {
        name: _compiled(rule, keymaps, modules.get(rule.module or ""))
        for name, rule in rules.items()
    }
    shared: dict[Target, CompiledTarget] = {}

    def linked(target: Target) -> CompiledTarget:
        if target not in shared:
            then = tuple(compiled[name] for name in reversed(target.then))
            shared[target] = CompiledTarget(target, target.to, then)
        return shared[target]

    arrows = [*starts, *(name for rule in rules.values() for name in rule.then)]
    for rule in rules.values():
        for target in outbound[rule.outbound].values() if rule.outbound is not None else ():
            arrows += target.then
    many = {name for name, count in Counter(arrows).items() if count > 1}
    for each in compiled.values():
        rule = each.rule
        each.shared = rule.name in many
        table = outbound[rule.outbound] if rule.outbound is not None else {}
        each.outbound = {tag: linked(target) for tag, target in table.items()}
        each.otherwise = linked(Target(rule.otherwise)) if rule.otherwise else None
        to = (*rule.to, *broadcasts.get(rule.name, ()))
        leads = to or rule.then or rule.broadcast is not None
        each.always = [linked(Target(to, rule.then))] if leads else []
    return compiled


def _compiled(
    rule: Rule, keymaps: Mapping[str, Keymap], introspect: Introspect | None
) -> CompiledRule:
    conditions = rule.when if rule.broadcast is None else (NOT_AGAIN, *rule.when)
    tests = tuple((compile_condition(each, keymaps), each) for each in conditions)
    value = tags = None
    if rule.key is not None:
        value = value_of(rule.key)
        if rule.names_tags and isinstance(rule.key, Header):
            value = listed_in_header(value)
        tags = tags_of(value, None if rule.keymap is None else keymaps[rule.keymap])
    return CompiledRule(rule, introspect, tests, value, tags, {}, None, [], True, keymaps)
