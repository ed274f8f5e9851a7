"""Routing keys by a function of the user's."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from topology.model.dotted import load
from topology.model.errors import DeclarationError, Malformed, described
from topology.model.event import Message
from topology.model.names import one_argument
from topology.model.printable import printable
from topology.routing.introspect.key_module import MOST_KEYS, Introspect, KeyModule, Memo
from topology.routing.introspect.key_values import Keys, checked_value

KeyFunction = Callable[[Message], Mapping[str, Any]]
"""Message → keys by name; whatever it raises makes the message malformed."""


class FunctionKeys(KeyModule):
    """Extracts routing keys by a function of a message.

    A module that was imported is not imported again: new code has a new name.

    Args:
        function: the function, or `"module:function"`.
        names: the keys that it extracts, so that rules are checked against them; None if any.
        reads: the format that it reads; None for any.

    Raises:
        DeclarationError: there is no such function, or it takes no message.
    """

    def __init__(
        self,
        function: KeyFunction | str,
        *,
        names: Iterable[str] | None = None,
        reads: str | None = None,
    ) -> None:
        found: Any = function
        if isinstance(function, str):
            found = load("module", function, "a function of a message")
        if not callable(found):
            raise DeclarationError(f"module={function!r}: give a function of a message")
        one_argument(f"module={function!r}", found, "message")
        self.function: KeyFunction = found
        self.names, self.reads = None if names is None else tuple(sorted(names)), reads

    def compile(self) -> Introspect:
        """Return the module as one function of a message."""
        function = self.function

        def introspect(message: Message, memo: Memo) -> Keys:
            try:
                given = dict(function(message))
            except Malformed:
                raise
            except BaseException as error:
                reason = printable(described(error), 300)
                raise Malformed(f"the introspection module failed: {reason}") from error
            if len(given) > MOST_KEYS:
                raise Malformed(f"the module found {len(given)} keys; the limit is {MOST_KEYS}")
            return {
                name: kept
                for name, value in given.items()
                if (kept := checked_value(printable(name), value)) is not None
            }

        return introspect
