"""What a path service goes by."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stores.units.wire import TOKEN_LENGTH


@dataclass(frozen=True, slots=True)
class PathSettings:
    """What a path service goes by.

    Args:
        destinations: the topics whose units it routes: one, or all of a cluster.
        kafka: arguments of aiokafka's clients.
        token: what producers and administrators show, of at least 16 characters.
        host: where it listens.
        port: where it listens; 0 for any.
        url: under which producers reach it; by default `http://host:port`.
        lease: seconds for which a producer may go by a route without hearing from the service.
    """

    destinations: tuple[str, ...]
    kafka: Mapping[str, Any]
    token: str = field(repr=False)
    host: str = "127.0.0.1"
    port: int = 0
    url: str | None = None
    lease: float = 10.0

    def __post_init__(self) -> None:
        if len(self.token) < TOKEN_LENGTH or not self.token.isascii():
            raise ValueError(f"the token needs at least {TOKEN_LENGTH} ASCII characters")
        if not 0.5 <= self.lease <= 3600:
            raise ValueError(f"lease is {self.lease}: it is 0.5 to 3,600 seconds")
