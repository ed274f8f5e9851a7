"""Functions whose annotations name what only a type checker imports, as users write them."""

import __future__

import sys
from collections.abc import Callable
from typing import Any


def only_checked(arguments: str) -> Callable[..., Any]:
    """A function with these arguments, which gives back what it has of them."""
    # From 3.14 on such names need no quotes; before, what is written so is never evaluated.
    flags = 0 if sys.version_info >= (3, 14) else __future__.annotations.compiler_flag
    made: dict[str, Any] = {}
    source = f"def made({arguments}): return locals()"
    exec(compile(source, "<user>", "exec", flags, dont_inherit=True), made)
    found: Callable[..., Any] = made["made"]
    return found
