"""`scripts/soak fuzz`: hostile inputs at every boundary where bytes come in, for as long as told.

After each input the process has to go on, and the input has to be in exactly one counted place.
What breaks that is brought down to the smallest input that still does, and shown.
"""

import random
import sys
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import click
from hypothesis import HealthCheck, Phase, given, seed, settings

from soak import fuzz
from soak.fuzz import Boundary

INPUTS = 500
"""Inputs between two looks at the clock."""


def boundaries() -> Iterator[Boundary[Any]]:
    """All there are: the classes of the modules beside this one that have a `name`."""
    for found in iter_modules(fuzz.__path__):
        if found.name.startswith("_"):
            continue
        module = import_module(f"{fuzz.__name__}.{found.name}")
        for each in vars(module).values():
            own = isinstance(each, type) and each.__module__ == module.__name__
            if own and isinstance(getattr(each, "name", None), str) and hasattr(each, "strategy"):
                yield each()


def attack(boundary: Boundary[Any], chance: random.Random, seconds: float) -> int:
    """Give a boundary inputs for so many seconds; returns how many. Raises what breaks it."""
    given_inputs = 0

    def run(input: Any) -> None:
        nonlocal given_inputs
        given_inputs += 1
        boundary.run(input)

    until = time.monotonic() + seconds
    while time.monotonic() < until:
        limits = settings(
            max_examples=INPUTS,
            deadline=None,
            database=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        )
        seed(chance.getrandbits(64))(limits(given(boundary.strategy())(run)))()
    return given_inputs


@click.command(help=__doc__)
@click.argument("names", metavar="[BOUNDARY]...", nargs=-1)
@click.option("--seconds", default=600.0, show_default=True, help="For each boundary.")
@click.option("--seed", "start", type=int, help="Of the inputs; drawn and shown if left out.")
@click.option("--list", "only_list", is_flag=True, help="Show the boundaries and end.")
def main(names: Sequence[str], seconds: float, start: int | None, only_list: bool) -> None:
    found = {boundary.name: boundary for boundary in boundaries()}
    if only_list:
        click.echo("\n".join(sorted(found)))
        return
    if unknown := sorted(set(names) - set(found)):
        raise click.UsageError(f"no boundary {unknown[0]!r}; there are {', '.join(sorted(found))}")
    start = random.SystemRandom().getrandbits(32) if start is None else start
    broken = []
    for number, name in enumerate(names or sorted(found), 1):
        click.echo(f"{number}/{len(names or found)} {name}: {seconds:g} s, seed {start} …")
        began = time.monotonic()
        try:
            inputs = attack(found[name], random.Random(f"{start} {name}"), seconds)
        except Exception as error:
            notes = "\n".join(getattr(error, "__notes__", ()))
            click.echo(f"  BROKEN: {type(error).__name__}: {error}\n{notes}")
            broken.append(name)
        else:
            took = time.monotonic() - began
            click.echo(f"  {inputs:,} inputs in {took:.0f} s: all accounted for")
    if broken:
        click.echo(f"BROKEN: {', '.join(broken)} (seed {start})")
        sys.exit(1)
    click.echo("every input is in one counted place")


if __name__ == "__main__":
    main()
