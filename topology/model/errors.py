"""What goes wrong, by name: a mistake in a declaration, and a message that cannot be understood."""

from typing import TYPE_CHECKING, Any

from topology.model.printable import printable

if TYPE_CHECKING:
    from pydantic import ValidationError


class DeclarationError(ValueError):
    """A topology is declared wrongly; the text names the thing and the remedy."""


class Malformed(ValueError):
    """A message that no event can be made of; the text is the reason, kept with the message."""


class HandlerError(TypeError):
    """A handler yielded something that is neither a row change nor a message, or too much of it."""


class RefusedValue(HandlerError):
    """A handler yielded a value that no table could hold; the text names the column and why."""


def described(error: BaseException) -> str:
    """The error's type and text, even if it has none to give."""
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:
        return type(error).__name__


def first_of(error: "ValidationError") -> str:
    """The first thing that is wrong in settings, a file or a request, and where, for people."""
    first: Any = error.errors(include_input=False, include_url=False)[0]
    where = printable(".".join(map(str, first["loc"])), 200)
    why = printable(first["msg"].removeprefix("Value error, "), 200)
    return f"{where}: {why}" if where else why
