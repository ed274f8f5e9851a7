"""Verbs as one function: what is left of a value after them."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from itertools import chain, islice
from typing import Any, Literal

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from topology.inspectors.lazy import LazyJson
from topology.model.changes import ITEMS_LIMIT
from topology.model.errors import DeclarationError, HandlerError
from topology.model.names import misfit

Verb = Literal["filter", "map", "flat_map", "peek"]
Step = tuple[Verb, Callable[[Any], Any]]
"""A verb, and the user's function."""


def named(function: Callable[..., Any], steps: Sequence[Step], *more: str) -> Callable[..., Any]:
    """A handler that says in `describe()` which verbs it is."""
    function.__name__ = " → ".join((*(verb for verb, _ in steps), *more))
    return function


def fused(steps: Sequence[Step]) -> Callable[[Any], Iterable[Any]]:
    """One function that takes the steps in turn: a value → what they make of it, in order."""
    if not steps:
        return lambda value: (value,)
    if len(steps) == 1 and steps[0][0] == "filter":
        stays = steps[0][1]
        return lambda value: (value,) if stays(value) else ()

    def run(value: Any) -> Iterable[Any]:
        values = [value]
        for verb, function in steps:
            if verb == "filter":
                values = [each for each in values if function(each)]
            elif verb == "map":
                values = [function(each) for each in values]
            elif verb == "flat_map":
                made = chain.from_iterable(map(function, values))
                values = list(islice(made, ITEMS_LIMIT + 1))
                if len(values) > ITEMS_LIMIT:
                    raise HandlerError(
                        f"flat_map(…) made more than {ITEMS_LIMIT} values of one event; does it "
                        "end?"
                    )
            else:
                for each in values:
                    function(each)
            if not values:
                break
        return values

    return run


def reader(what: str, of: Any) -> Callable[[Any], Any]:
    """What makes content into a type; None leaves it as it is. Raises DeclarationError."""
    if of is None:
        return lambda content: content
    try:
        if isinstance(of, str):
            raise TypeError("it is a text")
        # That of the adapter only takes more arguments, and costs as much again.
        read = TypeAdapter(of).validator.validate_python
    except Exception as error:
        raise DeclarationError(
            f"{what}(of={of!r}): no type that content is read into: {error}"
        ) from None
    return lambda content: read(content.value if content.__class__ is LazyJson else content)


def fields_read(of: Any) -> tuple[str, ...] | None:
    """All that `reader` reads of content, by name; None where that is not known: it may be all."""
    schema: Any = TypeAdapter(of).core_schema if is_dataclass(of) else {}
    inner = schema.get("schema", {})
    settings = {*schema.get("config", {}), *inner} & {"extra_fields_behavior", "extra_behavior"}
    if schema.get("type") != "dataclass" or inner["type"] != "dataclass-args" or settings:
        return None
    fields = inner["fields"]
    if any("validation_alias" in field for field in fields):
        return None
    return tuple(field["name"] for field in fields)


def checked_function(what: str, function: object, takes: int = 1) -> None:
    """Raises DeclarationError for what is no plain function that takes so many arguments."""
    if not callable(function):
        raise DeclarationError(f"{what}={function!r:.100}: give a function of the value")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise DeclarationError(
            f"{what}: an async function; verbs take plain ones, a view takes both"
        )
    if (arguments := misfit(function, takes)) is not None:
        given = "one argument" if takes == 1 else f"{takes} arguments"
        raise DeclarationError(
            f"{what}: it cannot be called with {given}, since its own are {arguments}"
        )


def checked_columns(what: str, columns: object) -> None:
    """Raises DeclarationError for what is no column → function."""
    if not isinstance(columns, Mapping):
        raise DeclarationError(f"{what}={columns!r:.100}: give column → function")
    for name, function in columns.items():
        checked_function(f"{what}: {name!r}", function)


def written(value: Any) -> Any:
    """A record's value: bytes and None as they are, else what JSON can write."""
    if value is None or isinstance(value, bytes):
        return value
    return bytes(value) if isinstance(value, bytearray) else to_jsonable_python(value)
