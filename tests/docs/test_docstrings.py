"""Docstrings of the public names: one line, then every argument."""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

FACES = [
    "stores.inbox",
    "stores.outbox",
    "stores.replay.recovering",
    "stores.sinks",
    "stores.sinks.toolbox",
    "stores.sites",
    "stores.two_phase",
    "stores.units",
    "stores.view_state",
    "topology",
    "topology.faust",
    "topology.routing",
    "topology.spark",
    "topology.testing",
    "topology.verbs",
]
_SECTION = re.compile(r"^(?:Args|Attributes):\n((?: {4,}.*\n|\n)+)", re.MULTILINE)


def documented(doc: str | None) -> set[str]:
    """The names in a docstring's sections Args and Attributes."""
    found = _SECTION.search(inspect.cleandoc(doc or "") + "\n")
    return set(re.findall(r"^ {4}(\w+):", found[1], re.MULTILINE)) if found else set()


def taken(function: Any) -> set[str]:
    """The arguments that a function takes by name."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return set()
    many = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    names = {each.name for each in parameters if each.kind not in many} - {"self", "cls"}
    return {name for name in names if not name.startswith("_")}


def public(face: str) -> Iterator[tuple[str, Any]]:
    """Functions, classes and methods that a face exports, each by its name."""
    module = import_module(face)
    for name in module.__all__:
        thing = getattr(module, name)
        if inspect.isroutine(thing):
            yield name, thing
        elif inspect.isclass(thing):
            if not issubclass(thing, Exception) and not getattr(thing, "_is_protocol", False):
                yield name, thing
            for key, method in vars(thing).items():
                if not key.startswith("_") and inspect.isfunction(method):
                    yield f"{name}.{key}", method


def _made_by_another(thing: Any) -> bool:
    """Whether what a class is made of is said by the library whose class it derives from."""
    init = getattr(thing, "__init__", None)
    return inspect.isclass(thing) and getattr(init, "__module__", "").startswith("faust")


@pytest.mark.parametrize("face", FACES)
def test_every_argument_of_a_public_name_is_documented(face: str) -> None:
    missing = {
        name: sorted(lacking)
        for name, thing in public(face)
        if not _made_by_another(thing) and (lacking := taken(thing) - documented(thing.__doc__))
    }
    assert not missing


@pytest.mark.parametrize("face", FACES)
def test_a_public_docstring_begins_with_one_line(face: str) -> None:
    wrong = []
    for name, thing in public(face):
        first, _, rest = inspect.cleandoc(thing.__doc__ or "").partition("\n")
        if not first.endswith(".") or (rest and not rest.startswith("\n")):
            wrong.append(name)
    assert not wrong
