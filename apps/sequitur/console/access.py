"""Who may look and who may act: the token, sessions, and where a request comes from."""

import hmac
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from topology.model.printable import printable
from topology.monitoring.same_origin import loopback

TOKEN = "CONSOLE_TOKEN"
LENGTH = 16
"""The least characters that a token has."""
LASTS = 8 * 3600.0
"""Seconds that a session may act."""
SESSIONS = 100
"""At once; one more ends the oldest."""
_NAME = 60


class AccessError(Exception):
    """Why the console cannot be opened to anybody."""


def token_of(file: Path | None, environment: Mapping[str, str]) -> str | None:
    """The token, None if there is none. Raises AccessError for what is none, and OSError."""
    if file is not None:
        found, where = file.read_text().strip(), str(file)
    else:
        found, where = environment.get(TOKEN, ""), TOKEN
        if not found:
            return None
    if len(found) < LENGTH or not found.isascii() or not found.isprintable():
        raise AccessError(f"{where}: a token has at least {LENGTH} ASCII characters on one line")
    return found


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who gave the token. ends: by the clock."""

    who: str
    ends: float


class Access:
    """The sessions that may act."""

    def __init__(
        self, host: str, token: str | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Raises AccessError where others could read without a token."""
        self.host, self.local, self._clock = host, loopback(host), clock
        self._token, self._sessions = token, dict[str, Session]()
        if token is None and not self.local:
            raise AccessError(
                f"others reach {host}, and could read all messages: set {TOKEN}, or listen on "
                "127.0.0.1"
            )

    @property
    def open(self) -> bool:
        """Whether there is a token at all, by which somebody may act."""
        return self._token is not None

    def enter(self, token: str, who: str) -> str | None:
        """The secret of a new session, None if the token is wrong."""
        given = token.encode("utf-8", "replace")
        if self._token is None or not hmac.compare_digest(given, self._token.encode()):
            return None
        while len(self._sessions) >= SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        secret = secrets.token_urlsafe(32)
        name = printable(who.strip(), _NAME) or "somebody"
        self._sessions[secret] = Session(name, self._clock() + LASTS)
        return secret

    def session(self, secret: str | None) -> Session | None:
        """The session of a secret, None if there is none (any more)."""
        found = self._sessions.get(secret or "")
        if found is None or found.ends > self._clock():
            return found
        del self._sessions[secret or ""]
        return None

    def leave(self, secret: str | None) -> None:
        """End a session."""
        self._sessions.pop(secret or "", None)
