"""What 'module:name' stands for: imported, never evaluated."""

import re
from importlib import import_module
from typing import Any

from topology.errors import DeclarationError, described

_PLACE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def load(what: str, place: str, instead: str) -> Any:
    """The object that `place` names, as in 'shop.formats:csv'.

    what: its role, named in errors. instead: what else could have been given.
    Raises DeclarationError with the reason and the remedy.
    """
    if not _PLACE.fullmatch(place):
        raise DeclarationError(
            f"{what}={place!r}: give {instead}, or name one as 'module:name', "
            "as in 'shop.formats:csv'"
        )
    module, _, name = place.partition(":")
    try:
        found: Any = import_module(module)
    except Exception as error:
        raise DeclarationError(
            f"{what}={place!r}: importing {module!r} failed ({described(error)}); "
            "the module must be on Python's path, as `python -c 'import …'` finds it"
        ) from error
    for step in name.split("."):
        try:
            found = getattr(found, step)
        except AttributeError:
            raise DeclarationError(
                f"{what}={place!r}: module {module!r} has no {name!r}; "
                "define it there, or correct the name behind the colon"
            ) from None
    return found
