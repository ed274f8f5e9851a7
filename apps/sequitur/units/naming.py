"""`--unit-by`: how servers name the units of messages whose producers name none."""

from sequitur.units.sessions import by_session, show_sessions
from stores.units.kafka.records import StoredMessage
from stores.units.naming import read_default
from stores.units.server.settings import Naming
from topology import DeclarationError
from topology.model.dotted import load


def naming_of(text: str) -> Naming:
    """The naming that `--unit-by` asks for. Raises UnitError, DeclarationError.

    text: `session`, `key`, `header:NAME`, `name:NAME`, or `MODULE:FUNCTION` of the message and its
    key.
    """
    if text == "session":
        show_sessions()
        return by_session
    if text == "key":
        return _by_key
    if text.partition(":")[0] not in ("header", "name"):
        given = load("--unit-by", text, "session, key, header:NAME or name:NAME")
        if not callable(given):
            raise DeclarationError(f"--unit-by={text!r}: what is there is no function")
        function: Naming = given
        return function
    default = read_default(text)
    return lambda message, _: default.name_of(message, "")


def _by_key(_: StoredMessage, key: bytes | None) -> str | None:
    return key.decode() if key else None
