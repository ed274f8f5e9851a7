"""A naive router, written for reading: what the compiled one is compared with."""

from collections.abc import Mapping
from typing import Any

from topology.routing import Condition, Keymap, Nested, Rule, Target
from topology.routing.conditions import AnyCondition


def values(found: Any) -> list[Any]:
    several = found if isinstance(found, list) else [found]
    return [value for value in several if value is not None]


def text(value: Any) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def tags(keymap: Keymap | None, found: Any) -> list[str]:
    every = [text(value) for value in values(found)]
    if keymap is None:
        return every
    return [tag for key in every for tag in keymap.entries.get(key, keymap.otherwise)]


def number(value: Any) -> float | None:
    try:
        return None if isinstance(value, bool) else float(value)
    except ValueError:
        return None


def holds(condition: AnyCondition, body: Mapping[str, Any], maps: Mapping[str, Keymap]) -> bool:
    if isinstance(condition, Nested):
        every = [holds(each, body, maps) for each in condition.conditions]
        return {"all_of": all(every), "any_of": any(every), "none_of": not any(every)}[
            condition.kind
        ]
    assert isinstance(condition, Condition)
    assert isinstance(condition.key, str)
    found = values(body.get(condition.key))
    if condition.keymap is not None:
        found = tags(maps[condition.keymap], found)
    wanted: Any = condition.value
    if condition.test == "exists":
        return bool(found) is wanted
    for value in found:
        other = number(value)
        if (
            (condition.test == "equals" and text(value) == wanted)
            or (condition.test == "one_of" and text(value) in wanted)
            or (condition.test == "starts_with" and text(value).startswith(wanted))
            or (other is not None and condition.test == "over" and other > wanted)
            or (other is not None and condition.test == "at_least" and other >= wanted)
            or (other is not None and condition.test == "under" and other < wanted)
            or (other is not None and condition.test == "at_most" and other <= wanted)
        ):
            return True
    return False


class NaiveRouter:
    """Interprets rules one by one, by recursion."""

    def __init__(
        self,
        rules: list[Rule],
        keymaps: list[Keymap],
        outbound: Mapping[str, Mapping[str, Target]],
    ) -> None:
        self.rules = {rule.name: rule for rule in rules}
        self.keymaps = {keymap.name: keymap for keymap in keymaps}
        self.outbound = outbound

    def route(self, first: list[str], body: Mapping[str, Any]) -> list[str]:
        self.found: list[str] = []
        self.seen: list[str] = []
        for name in first:
            self.look(self.rules[name], body)
        return self.found

    def look(self, rule: Rule, body: Mapping[str, Any]) -> None:
        if rule.name in self.seen:
            return
        self.seen.append(rule.name)
        if not all(holds(each, body, self.keymaps) for each in rule.when):
            return
        targets: list[Target] = []
        if rule.key is not None:
            assert isinstance(rule.key, str)
            keymap = None if rule.keymap is None else self.keymaps[rule.keymap]
            table = self.outbound[rule.outbound] if rule.outbound else {}
            for tag in dict.fromkeys(tags(keymap, body.get(rule.key))):
                if tag in table:
                    targets.append(table[tag])
                elif rule.otherwise:
                    targets.append(Target(rule.otherwise))
        if targets or rule.key is None:
            targets.append(Target(rule.to, rule.then))
        for name in (name for target in targets for name in target.to):
            if name not in self.found:
                self.found.append(name)
        for name in (name for target in targets for name in target.then):
            self.look(self.rules[name], body)
