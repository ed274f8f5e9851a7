"""Fuzzing: inputs such as no sender should make, at each boundary where bytes come in from outside.

A boundary is one module here, whose class the tests run for seconds (`tests/apps/soak/fuzz/`), and
`scripts/soak fuzz` for as long as it is told to.
"""

from typing import Protocol, TypeVar

from hypothesis.strategies import SearchStrategy

Input = TypeVar("Input")


class Boundary(Protocol[Input]):
    """One boundary. name: what it is called on the command line, as `relay-answers`."""

    name: str

    def strategy(self) -> SearchStrategy[Input]:
        """The inputs: real ones that were changed, and some that never were any."""
        ...

    def run(self, input: Input) -> None:
        """Give it one input. Raises AssertionError where the input stops the process, or does not
        end in exactly one counted place. Any number of inputs may be given one after the other."""
        ...
