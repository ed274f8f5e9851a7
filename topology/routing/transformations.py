"""Transformations: plug-ins that make one format of another."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from topology.model.closest import closest
from topology.model.dotted import load
from topology.model.errors import DeclarationError, Malformed, described
from topology.model.event import Message
from topology.model.large import MESSAGE_BYTES
from topology.model.names import checked_name
from topology.model.printable import printable

Transform = Callable[[bytes, Message], bytes]
"""(content, the message as it came) → content; whatever it raises fails the message."""


@dataclass(frozen=True, slots=True)
class Transformation:
    """A plug-in that makes one format of another.

    Args:
        name: its name.
        reads: the format that it takes.
        writes: the format that it gives.
        function: `function(content, message)`, or `"module:function"`.

    Raises:
        DeclarationError: a name is wrong, or there is no such function.
    """

    name: str
    reads: str
    writes: str
    function: Transform | str

    def __post_init__(self) -> None:
        what = f"transformation {checked_name('transformation', self.name)!r}"
        checked_name(f"{what}: reads", self.reads)
        checked_name(f"{what}: writes", self.writes)
        found: Any = self.function
        if isinstance(found, str):
            found = load(what, found, "a function of the content and the message")
        if not callable(found):
            raise DeclarationError(f"{what}: {found!r} is no function of content and message")
        object.__setattr__(self, "function", found)


def known(name: str, among: Mapping[str, Any], what: str, kind: str) -> Any:
    """What has the name. Raises DeclarationError with the closest one."""
    if not isinstance(name, str) or name not in among:
        raise DeclarationError(f"{what}: no {kind} {printable(name)!r}{closest(str(name), among)}")
    return among[name]


def chain_format(
    steps: Mapping[str, Transformation], start: str, names: Sequence[str], what: str
) -> str:
    """The format that a declared chain gives. Raises DeclarationError where it does not fit."""
    at = start
    for name in names:
        step = known(name, steps, what, "transformation")
        if step.reads != at:
            raise DeclarationError(
                f"{what}: transformation {name!r} reads {step.reads!r}, but gets {at!r}"
            )
        at = step.writes
    return at


def run(step: Transformation, content: bytes | None, message: Message) -> bytes | None:
    """The content in the other format. Raises Malformed, and nothing else."""
    if content is None:
        return None
    what = f"transformation {step.name!r}"
    try:
        made = step.function(content, message)  # type: ignore[operator]
    except BaseException as error:
        raise Malformed(f"{what} failed: {printable(described(error), 300)}") from error
    if not isinstance(made, bytes):
        raise Malformed(f"{what} returned a {type(made).__name__}; it must return bytes")
    if len(made) > MESSAGE_BYTES:
        raise Malformed(f"{what} made {len(made)} bytes; the limit is {MESSAGE_BYTES}")
    return made
