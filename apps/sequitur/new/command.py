"""`sequitur new`: a folder with a project that runs."""

import keyword
import re
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import click

from sequitur.cli.group import Command

TEMPLATE = Path(__file__).with_name("template")
_ENDING = ".in"
_TAKEN = frozenset(
    {
        *("app", "compile", "float", "order_board", "orders", "skip", "str"),
        *("driver", "row", "send"),
    }
)
"""Names that the topology and its test have, or use, for something else."""


@click.command("new", cls=Command)
@click.argument("name")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where it is written; default: a folder NAME here.",
)
def command(name: str, folder: Path | None) -> None:
    """Write a project that runs, with a topology NAME and its test.

    \b
    sequitur new shop && cd shop
    python -m pytest           the topology's test, without a broker
    sequitur broker start      or: docker compose up -d
    faust -A shop topics --create
    faust -A shop worker -l info
    """
    module = module_name(name)
    target = folder or Path(name)
    write(module, target)
    click.echo(f"{target} has a project; its README.md says how to start it")


def module_name(name: str) -> str:
    """Return the name of the project's module. Raises click.UsageError where there can be none."""
    module = name.replace("-", "_").lower()
    if not re.fullmatch(r"[a-z][a-z0-9_]*", module) or keyword.iskeyword(module):
        raise click.UsageError(
            f"{name!r} names no module of Python: take letters, digits and '-', a letter first"
        )
    if module in _TAKEN or module.startswith("test_"):
        raise click.UsageError(f"{name!r} is a name in the files of a project; take another one")
    ours = ("sequitur", "stores", "topology")
    if module in sys.stdlib_module_names or module in ours or _installed(module):
        raise click.UsageError(f"{name!r} is the name of another module; take another one")
    return module


def write(module: str, target: Path) -> None:
    """Write the project into a folder. Raises click.ClickException if the folder has anything."""
    try:
        if target.exists() and any(target.iterdir()):
            raise click.ClickException(f"the folder {str(target)!r} is not empty; name a new one")
        target.mkdir(parents=True, exist_ok=True)
        for source in sorted(TEMPLATE.iterdir()):
            if source.suffix == _ENDING:
                file = target / source.name.removesuffix(_ENDING).replace("NAME", module)
                file.write_text(filled(source.read_text(), module))
    except OSError as error:
        raise click.ClickException(f"{target}: {error.strerror}") from None


def filled(text: str, module: str) -> str:
    """Return a file of the template with the project's own names in it."""
    return text.replace("{{name}}", module).replace("{{version}}", version("sequitur"))


def _installed(module: str) -> bool:
    """Whether there is such a module elsewhere than among the working directory's own."""
    spec = find_spec(module)
    if spec is None:
        return False
    places = [spec.origin] if spec.origin else [*(spec.submodule_search_locations or [])]
    return not all(map(_is_own, map(Path, places)))


def _is_own(place: Path) -> bool:
    """Whether a module is the user's: below the working directory, and not of an environment."""
    below = place.is_relative_to(Path.cwd())
    return below and not {"site-packages", "dist-packages"} & {*place.parts}
