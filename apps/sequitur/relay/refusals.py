"""What is refused while everything else goes on: which messages, and what is told of it."""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from sequitur.relay.link import SendResult
from sequitur.relay.rate_limit import RateLimit
from stores.message import Message
from topology.model.counted import counted
from topology.model.printable import printable

logger = logging.getLogger(__name__)


class Refusals:
    """Tells of refusals, and of their end, in the name of `relay`; not more often than is read."""

    def __init__(self, relay: str) -> None:
        self._relay = relay
        self._told = RateLimit()
        self._shut: set[str] = set()
        """Topics of which the last messages were refused."""

    def tell(self, sent: SendResult, taken: Sequence[Message], whole: Collection[str] = ()) -> None:
        """Say what is refused, each reason now and then, and which topics take messages again.

        whole: topics of which all waits.
        """
        waiting = Counter(message.topic for message in sent.refused)
        for topic, number in waiting.items():
            reason = sent.topics.get(topic, sent.reason)
            if topic in sent.topics or topic in whole:
                self._shut.add(topic)
            if self._told(f"{topic} {reason}"):
                logger.warning(
                    "relay %s: refused %s of topic %s, to be sent again before what follows; "
                    "other %s go on: %s",
                    self._relay, counted(number, "message"), printable(topic),
                    "topics" if topic in self._shut else "streams", printable(reason, 400),
                )  # fmt: skip
        if self._shut:
            for topic in {message.topic for message in taken} & self._shut:
                self._shut.discard(topic)
                self._told.clear()
                logger.info("relay %s: topic %s takes messages", self._relay, printable(topic))


def divided(
    messages: Sequence[Message], fault: Callable[[Message], str | None]
) -> tuple[list[Message], list[Message], str]:
    """Messages that can be sent, those that cannot with what follows them in their streams, why."""
    good, bad, reason = list[Message](), list[Message](), ""
    stuck: set[tuple[str, str]] = set()
    for message in messages:
        at = message.topic, message.stream
        if at not in stuck and (found := fault(message)) is None:
            good.append(message)
            continue
        if at not in stuck:
            reason = reason or f"message {message.id} of the log cannot be sent: {found}"
            stuck.add(at)
        bad.append(message)
    return good, bad, reason
