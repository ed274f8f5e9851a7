"""What is to be known of a stream beside the view's own state, found in topics and the group."""

from dataclasses import dataclass

from topology.diagnostics.explain.command_log import CommandRecord
from topology.diagnostics.explain.work_tally import StreamWork


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message of the stream: where it was in its source, and when it arrived (ms).

    sequence: None where it is not known. Of what a topic has beside (late, dead, failed, malformed)
    the time is when it was set aside.
    """

    sequence: int | None
    topic: str
    partition: int
    offset: int
    arrived: int


@dataclass(frozen=True, slots=True)
class PendingRedelivery:
    """An event in the redelivery topic: it comes again at `due` (ms), for the `attempt`th time."""

    stream: str
    sequence: int
    attempt: int
    due: int


@dataclass(frozen=True, slots=True)
class SetAside:
    """What a side topic has of the stream. at: its record there. reason: why it is there. again:
    whether it was put back into the stream since.

    sequence: None of a malformed message, of which nobody knows.
    """

    sequence: int | None
    at: Arrival
    reason: str
    again: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """The relay was asked for sequences `first` to `last` at `when` (ms)."""

    first: int
    last: int
    when: int


@dataclass(frozen=True, slots=True)
class Blocked:
    """A handler that does not come to an end. since: when it began (ms). seconds: how long it took
    when that was told. timeout: what the view allows (s). who: the worker.
    """

    sequence: int
    since: int
    seconds: float
    timeout: float
    who: str


@dataclass(frozen=True, slots=True)
class StreamContext:
    """The surroundings of one stream in one view.

    Attributes:
        now: the workers' clock (ms).
        partition: the stream's.
        position: the input offset that the view reads next; `end` is behind the last message.
        unkeyed: offsets of the source topics that are not re-keyed yet.
        owner: the group's member that has the partition, None if nobody has.
        group: the state of the group.
        newest: the stream's last message among the `looked` last records of the input.
        unread: messages of the stream that are not read yet, in the input and the source's topics.
        hidden: whether part of what is not read yet was not looked at.
        redelivering: the stream's events in the redelivery topic.
        late: events that came after they had been given up, newest last.
        dead: events in the dead topic.
        failed: events that the view passed over, as their handler failed.
        malformed: messages that no event could be made of, with the stream's id in them.
        pending: commands that wait, to the stream or to the whole view.
        failure: why the event at the head of a stream that is set aside failed.
        command: what an operator's command line begins with.
        unseen: what was not looked at, in words.
        read: messages of the stream among the `looked` that the view has read.
        blocked: the handler that is at the stream and does not come to an end.
        requested: what the relay was asked for, newest last, where the view asks.
        work: the stream in the second stage of a view with workers, None of any other view.
        similar: ids that come close, where no view knows the stream.
    """

    now: int
    partition: int = 0
    position: int = 0
    end: int = 0
    unkeyed: int = 0
    owner: str | None = None
    group: str = "Empty"
    newest: Arrival | None = None
    unread: int = 0
    hidden: bool = False
    looked: int = 0
    redelivering: tuple[PendingRedelivery, ...] = ()
    late: tuple[Arrival, ...] = ()
    dead: tuple[SetAside, ...] = ()
    failed: tuple[SetAside, ...] = ()
    malformed: tuple[SetAside, ...] = ()
    pending: tuple[CommandRecord, ...] = ()
    failure: str | None = None
    command: str = "faust -A app"
    unseen: tuple[str, ...] = ()
    read: int = 0
    blocked: Blocked | None = None
    work: StreamWork | None = None
    requested: tuple[Request, ...] = ()
    similar: tuple[str, ...] = ()

    @property
    def lag(self) -> int:
        """How many offsets of the input the view has before it."""
        return max(0, self.end - self.position)

    @property
    def may_come(self) -> bool:
        """Whether what the stream misses may lie where the view has not read yet."""
        return bool(self.unread) or self.hidden
