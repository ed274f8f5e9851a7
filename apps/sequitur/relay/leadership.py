"""What a relay goes by, what it has done, and what it has in hand while it leads."""

import asyncio
from dataclasses import dataclass, field

from sequitur.relay.batch_queue import BatchQueue
from sequitur.relay.link import Answer
from sequitur.relay.outstanding import Outstanding
from stores.message import Message


@dataclass(frozen=True, slots=True)
class RelayConfig:
    """page: messages read, sent and deleted at a time. poll: seconds after which it is looked for
    new messages, and for the lease, though nobody woke it. ask: seconds between questions for what
    receivers miss. retry: seconds until it is tried again where something is away. nap: seconds
    between looks while messages come one after the other. gather: seconds in which acknowledged
    messages gather to be deleted together.
    """

    page: int = 4_000
    poll: float = 0.5
    ask: float = 5.0
    retry: float = 0.5
    nap: float = 0.01
    gather: float = 0.2


@dataclass(slots=True)
class RelayCounts:
    """How much was done. sent: messages acknowledged, again ones too. deleted: from the log."""

    sent: int = 0
    deleted: int = 0
    again: int = 0
    voids: int = 0


@dataclass(slots=True)
class LeadershipTerm:
    """What one turn as the leader has in hand. fenced: how often somebody else shut it out."""

    epoch: int
    fenced: int = 0
    read: BatchQueue[Message] = field(default_factory=BatchQueue)
    done: BatchQueue[int] = field(default_factory=BatchQueue)
    again: list[Message] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    outstanding: Outstanding = field(default_factory=Outstanding)
    woken: asyncio.Event = field(default_factory=asyncio.Event)
