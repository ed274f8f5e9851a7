"""Answers to those who miss messages: what the log knows of the sequences that they ask for."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import Engine

from apps.relay.link import Missing
from stores.message import Message
from stores.message_kept import Kept
from stores.message_log import MessageLog

ASKED = 1_000
"""Requests that wait; what comes beyond is asked for again."""
RANGE = 1_000
"""Sequences of a request that are looked at; the rest is asked for again."""


@dataclass(slots=True)
class Known:
    """messages: to be sent again. voids: ranges that never come."""

    messages: list[Message] = field(default_factory=list)
    voids: list[tuple[int, int]] = field(default_factory=list)


class Answering:
    """What was asked, and what is known of it.

    What the log still has is on its way and needs no answer. What is neither there, nor kept, nor
    void, was acknowledged once: there is no proof that it never comes, so there is no answer.
    """

    def __init__(self, engine: Engine, log: MessageLog, kept: Kept | None) -> None:
        self._engine, self._log, self._kept = engine, log, kept
        self.asked: deque[Missing] = deque()

    def ask(self, missing: Sequence[Missing]) -> None:
        for each in missing:
            if len(self.asked) < ASKED and each not in self.asked:
                self.asked.append(each)

    def look(self) -> list[tuple[Missing, Known]]:
        """Answer all that was asked. Raises SQLAlchemyError, and then it is still asked."""
        found: list[tuple[Missing, Known]] = []
        asked = list(self.asked)
        with self._engine.connect() as connection:
            for each in asked:
                last = min(each.last, each.first + RANGE - 1)
                known, log = Known(), self._log
                for part in log.known(connection, each.topic, each.stream, each.first, last):
                    if part.state == "void":
                        known.voids.append((part.first, part.last))
                    elif part.state == "gone" and self._kept is not None:
                        known.messages += self._kept.read(
                            connection, each.topic, each.stream, part.first, part.last
                        )
                found.append((each, known))
        for _ in asked:
            self.asked.popleft()
        return found
