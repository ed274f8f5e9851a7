"""Text that came from outside, as a terminal or a log may be given it."""

LENGTH = 120
"""Characters that are shown unless told otherwise."""


def printable(text: object, length: int = LENGTH) -> str:
    r"""`text` on one line, without control characters, and no longer than `length` characters.

    What no terminal should be sent (control and escape characters, direction marks, unpaired
    surrogates, line ends) is written as an escape such as `\x1b`. A longer text loses its middle,
    which is marked by `…`. Never raises, whatever `str(text)` does.
    """
    try:
        found = str(text)
    except BaseException:
        found = f"<{type(text).__name__} that cannot be shown>"
    if len(found) > length:
        # Escapes make it longer, never shorter: no more than this can be needed.
        half = max(1, (length - 1) // 2)
        found = f"{found[: length - half - 1]}…{found[-half:]}"
    if not found.isprintable():
        found = "".join(c if c.isprintable() else _escape(c) for c in found)
        if len(found) > length:
            found = f"{found[: length - 1]}…"
    return found


def is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8: it has no unpaired surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
