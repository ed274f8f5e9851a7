"""Conditions of a rule: tests of a routing key, or of what a keymap says of it; nested or not."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import eq, ge, gt, le, lt
from typing import Any, Literal

from topology.model.closest import closest
from topology.model.errors import DeclarationError
from topology.model.event import Message
from topology.model.printable import printable
from topology.routing.introspect.key_values import Keys, key_number
from topology.routing.introspect.key_values import key_text as text_of
from topology.routing.routing_keys import RoutingKey, key_name, tags_of, value_of
from topology.routing.tables import Keymap, checked_text

Test = Callable[[Keys, Message], bool]

DEEPEST, MOST = 16, 1000
"""How deep conditions may be nested, and how many stand side by side."""
_NUMBERS: dict[str, Callable[[Any, Any], bool]] = {
    "over": gt, "at_least": ge, "under": lt, "at_most": le,
}  # fmt: skip
TESTS = ("equals", "one_of", "starts_with", "exists", *_NUMBERS)


@dataclass(frozen=True, slots=True)
class Condition:
    """A test of one key. Make it by `when(…)`.

    Attributes:
        key: the key.
        test: which of `TESTS`.
        value: what the key is compared with.
        keymap: the keymap whose tags for the key are tested instead of the key.
    """

    key: RoutingKey
    test: str
    value: Any
    keymap: str | None = None

    def __str__(self) -> str:
        name = key_name(self.key)
        of = name if self.keymap is None else f"{self.keymap}[{name}]"
        return f"{of} {self.test.replace('_', ' ')} {printable(repr(self.value), 60)}"


@dataclass(frozen=True, slots=True)
class Nested:
    """Conditions of which all, any or none must hold. Make it by `all_of(…)` and so on.

    Attributes:
        kind: `"all_of"`, `"any_of"` or `"none_of"`.
        conditions: the conditions.
    """

    kind: Literal["all_of", "any_of", "none_of"]
    conditions: "tuple[Condition | Nested, ...]"

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(map(str, self.conditions))})"


AnyCondition = Condition | Nested


def when(key: RoutingKey, *, keymap: str | None = None, **test: Any) -> Condition:
    """Make a condition. Of a key with several values, one that meets the test is enough.

    Args:
        key: a routing key, `header(…)` or `key()`.
        keymap: a keymap, whose tags for the key are tested.
        test: exactly one of `equals=…`, `one_of=[…]`, `starts_with=…`, `exists=True|False`, and
            with numbers `over=…`, `at_least=…`, `under=…`, `at_most=…`. A key that is not there
            meets only `exists=False`.

    Raises:
        DeclarationError: the test is wrong.
    """
    what = f"when({key_name(key)!r})"
    if len(test) != 1:
        raise DeclarationError(f"{what}: give exactly one of {', '.join(TESTS)}")
    ((name, value),) = test.items()
    if name not in TESTS:
        raise DeclarationError(f"{what}: no test {name!r}{closest(name, TESTS)}")
    if name == "exists":
        if not isinstance(value, bool):
            raise DeclarationError(f"{what}: exists={value!r}; it is true or false")
    elif name == "one_of":
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise DeclarationError(f"{what}: one_of={printable(repr(value))}; give a list")
        value = tuple(checked_text(f"{what}: one_of", each) for each in value)
    elif name in _NUMBERS:
        if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
            raise DeclarationError(f"{what}: {name}={printable(repr(value))}; give a number")
    else:
        value = checked_text(f"{what}: {name}", value)
    return Condition(key, name, value, keymap)


def all_of(*conditions: AnyCondition) -> Nested:
    """Make a condition that holds if all of these do.

    Args:
        conditions: the conditions.
    """
    return Nested("all_of", conditions)


def any_of(*conditions: AnyCondition) -> Nested:
    """Make a condition that holds if one of these does.

    Args:
        conditions: the conditions.
    """
    return Nested("any_of", conditions)


def none_of(*conditions: AnyCondition) -> Nested:
    """Make a condition that holds if none of these does.

    Args:
        conditions: the conditions.
    """
    return Nested("none_of", conditions)


def leaves(what: str, conditions: Iterable[object], depth: int = 0) -> list[Condition]:
    """All plain conditions, the nested ones too. Raises DeclarationError."""
    several = tuple(conditions)
    if depth > DEEPEST or len(several) > MOST:
        raise DeclarationError(
            f"{what}: conditions are nested {DEEPEST} deep at most, {MOST} side by side"
        )
    found: list[Condition] = []
    for each in several:
        if isinstance(each, Nested):
            if not each.conditions:
                raise DeclarationError(f"{what}: {each.kind}() has no condition")
            found += leaves(what, each.conditions, depth + 1)
        elif isinstance(each, Condition):
            found.append(each)
        else:
            raise DeclarationError(f"{what}: {printable(repr(each))} is no when(…)")
    return found


def compile_condition(condition: AnyCondition, keymaps: Mapping[str, Keymap]) -> Test:
    """A condition as a function; the same decides and explains."""
    if isinstance(condition, Nested):
        tests = tuple(compile_condition(each, keymaps) for each in condition.conditions)
        if condition.kind == "all_of":
            return lambda keys, message: all(test(keys, message) for test in tests)
        if condition.kind == "any_of":
            return lambda keys, message: any(test(keys, message) for test in tests)
        return lambda keys, message: not any(test(keys, message) for test in tests)
    value = value_of(condition.key)
    if condition.keymap is not None:
        value = tags_of(value, keymaps[condition.keymap])
    if condition.test == "exists":
        there = condition.value
        return lambda keys, message: (value(keys, message) not in (None, ())) == there
    check = _check(condition.test, condition.value)

    name = condition.key
    if isinstance(name, str) and condition.keymap is None:
        # Most tests compare like with like, which needs no further call.
        wanted, numeric = condition.value, condition.test in _NUMBERS
        kind = int if numeric else str if condition.test == "equals" else None
        compare: Callable[[Any, Any], bool] = _NUMBERS.get(condition.test, eq)

        def plain(keys: Keys, message: Message) -> bool:
            found = keys.get(name)
            if found.__class__ is kind:
                return compare(found, wanted)
            if found.__class__ is list:
                return any(map(check, found))
            return found is not None and check(found)

        return plain

    def test(keys: Keys, message: Message) -> bool:
        found = value(keys, message)
        if found.__class__ is list or found.__class__ is tuple:
            return any(map(check, found))
        return found is not None and check(found)

    return test


def _check(test: str, wanted: Any) -> Callable[[Any], bool]:
    if test in _NUMBERS:
        compare = _NUMBERS[test]

        def numeric(value: Any) -> bool:
            number = value if value.__class__ is int else key_number(value)
            return number is not None and compare(number, wanted)

        return numeric
    if test == "one_of":
        among = frozenset(wanted)
        return lambda value: text_of(value) in among
    if test == "starts_with":
        return lambda value: text_of(value).startswith(wanted)
    return lambda value: text_of(value) == wanted


def _finite(value: float) -> bool:
    return value.bit_length() < 64 if isinstance(value, int) else math.isfinite(value)
