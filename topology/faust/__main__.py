"""Faust's command line, with one line for an app that is not there.

    python -m topology.faust -A shop worker -l info

`faust -A shop …` is the same, except that Faust imports the app before anything of ours is asked,
and ends in a traceback where it cannot.
"""

import os
import sys
from collections.abc import Sequence
from typing import Any

import faust
from faust.cli.faust import cli

from topology.model.dotted import find, imported, submodules
from topology.model.errors import DeclarationError

CANNOT = 2


def main(arguments: Sequence[str] | None = None) -> Any:
    """Look for the app first, then let Faust do what is asked for."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    place, folder = _given(words, "-A", "--app"), _given(words, "-W", "--workdir")
    try:
        if folder:
            os.chdir(folder)
        if place:
            sys.path.insert(0, os.getcwd())
            _look_for(place)
    except (DeclarationError, OSError) as error:
        print(error, file=sys.stderr)
        return CANNOT
    return cli.main(words, prog_name="faust")


def _look_for(place: str) -> None:
    """Import the app as Faust does. Raises DeclarationError."""
    package, dot, last = place.rpartition(".")
    if ":" not in place and dot and last not in submodules(imported(f"app {place!r}", package)):
        place = f"{package}:{last}"  # Faust takes a dot for the colon too
    find("app", place, "app", lambda one: isinstance(one, faust.App))


def _given(words: Sequence[str], short: str, long: str) -> str | None:
    """The value of an option."""
    for word, after in zip(words, [*words[1:], None], strict=True):
        if word in (short, long):
            return after
        if word.startswith(f"{long}="):
            return word.removeprefix(f"{long}=")
    return None


if __name__ == "__main__":
    sys.exit(main())
