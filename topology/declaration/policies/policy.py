"""What every policy says of itself; whatever differs by policy is asked there."""

from typing import ClassVar


class Policy:
    """A choice that a view has. Each is a frozen dataclass derived from that of its parameter."""

    __slots__ = ()

    choices: ClassVar[str]
    """What `view()` takes for the parameter, in words."""
    untried: ClassVar[str] = ""
    """What of it a trial on recorded events does not do, in words."""

    @property
    def more_than_a_stream(self) -> str:
        """What it does that no stream can do by itself, and what to use instead; empty if nothing.

        A runtime in which each stream is on its own refuses it.
        """
        return ""
