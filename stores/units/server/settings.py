"""What a unit server goes by."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from stores.units.kafka.records import StoredMessage
from stores.units.queue import QueueSettings
from stores.units.wire import TOKEN_LENGTH

Naming = Callable[[StoredMessage, bytes | None], str | None]
"""The unit of a message that names none: from its headers and its key."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """One server of one subscriber of a destination.

    Args:
        destination: the topic.
        group: the subscriber; each has its own order. It is the name of the consumer group too.
        kafka: arguments of aiokafka's clients: `bootstrap_servers`, and those of TLS and SASL.
        token: what consumers and administrators show, of at least 16 characters.
        host: where it listens.
        port: where it listens; 0 for any.
        url: under which consumers reach it; by default `http://host:port`.
        lease: seconds for which a session may work without hearing from the owner, and after which
            what it held goes to another.
        queue: the rules of order and redelivery.
        naming: names the units of messages that come without a name.
        outputs: topics to which transacted consumers may send.
        messages: messages of a member in memory beyond which it reads no further.
        size: bytes of them, likewise.
        sessions: sessions of a member at a time.
        name: of this server.
    """

    destination: str
    group: str
    kafka: Mapping[str, Any]
    token: str = field(repr=False)
    host: str = "127.0.0.1"
    port: int = 0
    url: str | None = None
    lease: float = 10.0
    queue: QueueSettings = field(default_factory=QueueSettings)
    naming: Naming | None = None
    outputs: frozenset[str] = frozenset()
    messages: int = 100_000
    size: int = 256 << 20
    sessions: int = 5_000
    name: str = field(default_factory=lambda: uuid4().hex[:12])

    def __post_init__(self) -> None:
        if len(self.token) < TOKEN_LENGTH or not self.token.isascii():
            raise ValueError(f"the token needs at least {TOKEN_LENGTH} ASCII characters")
        if not 0.5 <= self.lease <= 3600:
            raise ValueError(f"lease is {self.lease}: it is 0.5 to 3,600 seconds")

    @property
    def heartbeat(self) -> float:
        """Seconds between proofs that a member is still owned, and between owner rows."""
        return min(self.lease / 5, 10.0)
