"""Names of topologies, sources, views, tables: what Kafka and a database take without surprises."""

import re
import sys
from collections.abc import Callable, Iterable
from inspect import Signature, iscoroutinefunction, signature
from typing import Any

from topology.model.errors import DeclarationError
from topology.model.printable import printable

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def checked_name(what: str, name: object) -> str:
    """The name, if it can be part of a topic's name. Raises DeclarationError."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise DeclarationError(
            f"{what} {name!r}: a name starts with a letter and has up to 100 of A–Z a–z 0–9 _ . -"
        )
    return name


def listed(what: str, given: object, remedy: str) -> tuple[Any, ...]:
    """What is given as one text or several values, as a tuple. Raises DeclarationError."""
    if isinstance(given, str):
        return (given,)
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise DeclarationError(f"{what}={printable(repr(given))}): {remedy}")
    return tuple(given)


def one_argument(what: str, function: Callable[..., object], of: str) -> None:
    """Raises DeclarationError for a function that cannot be called with one argument, or is async.

    what: with its value, as it was given. of: what the argument is.
    """
    plain_function(what, function, of)


def plain_function(what: str, function: Any, *of: str) -> None:
    """Raises DeclarationError for what is no plain function of such arguments.

    what: with its value, as it was given. of: what the arguments are.
    """
    all_of = " and ".join(of)
    if not callable(function):
        raise DeclarationError(f"{what} must be a function of {all_of}")
    called = getattr(function, "__call__", None)  # noqa: B004
    if iscoroutinefunction(function) or iscoroutinefunction(called):
        raise DeclarationError(
            f"{what}: it is async; it only looks at its {all_of}, so make it a plain function"
        )
    if (arguments := misfit(function, len(of))) is not None:
        with_what, give = f"{len(of)} arguments", all_of
        if len(of) == 1:
            with_what, give = f"one {all_of}", f"one, the {all_of}"
        raise DeclarationError(
            f"{what}: it cannot be called with {with_what}, since its arguments are {arguments}; "
            f"give it {give}"
        )


def signature_of(function: Callable[..., object], *, follow_wrapped: bool = True) -> Signature:
    """As `inspect.signature`, where annotations name what only a type checker imports, too."""
    how: dict[str, Any] = {"follow_wrapped": follow_wrapped}
    if sys.version_info >= (3, 14):  # which evaluates annotations when they are asked for
        from annotationlib import Format

        how["annotation_format"] = Format.STRING
    return signature(function, **how)


def misfit(function: Callable[..., object], takes: int) -> Signature | None:
    """The arguments of a function that cannot be called with so many, None if it can."""
    try:
        # Of a decorator's own function: it may give the one behind it more than it gets.
        arguments = signature_of(function, follow_wrapped=False)
    except Exception:
        return None  # written in C, it may have none
    try:
        arguments.bind(*[None] * takes)
    except TypeError:
        return arguments
    return None


def checked_topic(topic: object) -> str:
    """The topic's name, if Kafka takes it. Raises DeclarationError."""
    if not isinstance(topic, str) or not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise DeclarationError(
            f"topic {topic!r}: a topic's name has 1 to 249 of A–Z a–z 0–9 _ . - and is not . or .."
        )
    return topic
