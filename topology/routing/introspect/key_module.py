"""What an introspection module is: it extracts routing keys from a message of one format."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from topology.model.closest import closest
from topology.model.errors import DeclarationError
from topology.model.event import Message
from topology.model.names import checked_name
from topology.routing.introspect.key_values import Keys

Memo = dict[str, Any]
"""What modules keep while one message is routed: a body that is decoded once for all of them."""

Introspect = Callable[[Message, Memo], Keys]
"""A compiled module. Raises Malformed with the reason, and nothing else."""

MOST_KEYS = 100
"""Routing keys that a module may extract."""


class KeyModule(ABC):
    """An introspection module.

    Attributes:
        names: the routing keys that it extracts; None if that is not known.
        reads: the format that it reads; None for any.
    """

    names: Collection[str] | None = None
    reads: str | None = None

    @abstractmethod
    def compile(self) -> Introspect:
        """Return the module as one function of a message."""


def checked_keys(module: str, keys: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a module with where each is found. Raises DeclarationError."""
    if not isinstance(keys, Mapping) or not keys:
        raise DeclarationError(f"{module}(keys={keys!r}): name at least one key and its place")
    if len(keys) > MOST_KEYS:
        raise DeclarationError(f"{module}: it has {len(keys)} keys; the limit is {MOST_KEYS}")
    return {checked_name(f"{module}: key", name): place for name, place in keys.items()}


def checked_every(module: str, every: Iterable[str], keys: Mapping[str, Any]) -> frozenset[str]:
    """The keys of which all occurrences count. Raises DeclarationError."""
    names = (every,) if isinstance(every, str) else tuple(every)
    for name in names:
        if name not in keys:
            raise DeclarationError(
                f"{module}(every={name!r}): it has no such key{closest(name, keys)}"
            )
    return frozenset(names)
