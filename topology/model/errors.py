"""What goes wrong, by name: a mistake in a declaration, and a message that cannot be understood."""


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
