"""Inspectors that tests name as 'tests.topology.inspectors.formats:…', as a configuration would."""

from topology import Inspected, Inspector, Message
from topology.inspectors.inspector import InspectorFunction

NUMBER = 5


def csv(message: Message) -> Inspected:
    stream, sequence, kind = (message.value or b"").decode().split(",")
    return Inspected(stream, sequence, kind)


orders = Inspector("order.id", "version")


class Lines:
    """An inspector with an argument of its own."""

    def __init__(self, separator: str = ";") -> None:
        self.separator = separator

    def compile(self) -> InspectorFunction:
        def inspect(message: Message) -> Inspected | None:
            if not message.value:
                return None
            return Inspected(*message.value.decode().split(self.separator))

        return inspect

    class Tabbed:
        def __call__(self, message: Message) -> Inspected:
            return Inspected(*(message.value or b"").decode().split("\t"))


class Strict(Lines):
    def __init__(self, separator: str) -> None:
        super().__init__(separator)


class Broken:
    def compile(self) -> int:
        return 5
