"""What the server takes and gives as JSON: /openapi.json is made of these."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from sequitur.replay.query_options import as_json
from stores.replay import CapturedMessage, Hole, Query
from stores.replay.query import CONDITIONS
from stores.replay.recoveries import LONGEST_KEEP, Recovery
from stores.replay.replay_state import ReplayState
from stores.replay.replay_tables import Replay
from stores.replay.replays import FASTEST

Actor = Annotated[str, Field(min_length=1, max_length=200, description="Who does it; recorded.")]
Reason = Annotated[str, Field(min_length=1, max_length=400, description="Why; recorded.")]
Topic = Annotated[str, Field(min_length=1, max_length=249)]
Texts = Annotated[list[Annotated[str, Field(min_length=1)]], Field(max_length=1_000)]
Id = Annotated[int, Field(ge=0, lt=2**63)]
Rate = Annotated[float, Field(ge=0.001, le=FASTEST, description="Messages a second, at most.")]
Refused = Literal["stop", "skip"]


class Asked(BaseModel):
    """What comes in: nothing is in it that means nothing."""

    model_config = ConfigDict(extra="forbid")


class QueryModel(Asked):
    """Which messages; all conditions hold together."""

    topics: Texts = Field(default=[], description="Where they were captured.")
    sites: Texts = Field(default=[], description="Where they were published first.")
    partitions: list[Id] = Field(default=[], max_length=1_000)
    since: float | None = Field(default=None, description="The record's time, s since 1970.")
    until: float | None = Field(default=None, description="The record's time is below this.")
    streams: Texts = []
    sequences: tuple[int | None, int | None] = Field(
        default=(None, None), description="Lowest and highest."
    )
    where: list[tuple[str, Literal["=", "!=", "<", "<=", ">", ">=", "^="], str | int | float]] = (
        Field(default=[], max_length=CONDITIONS, description="Metadata field, comparison, value.")
    )
    text: str | None = Field(default=None, min_length=1, description="The content has it.")
    offsets: dict[Topic, dict[str, tuple[Id, Id | None]]] = Field(
        default={}, description="Topic → partition → first offset, and the one behind the last."
    )
    after: Id = Field(default=0, description="The log's id that they are behind.")
    through: Id | None = Field(default=None, description="The log's last id among them.")

    def query(self) -> Query:
        """As the log takes it. Raises ReplayError."""
        return Query.from_json(self.model_dump(exclude_unset=True))


class CountRequest(Asked):
    """A query to count."""

    query: QueryModel = QueryModel()


class Count(BaseModel):
    """How many messages a query finds."""

    messages: int
    through: int = Field(description="The log's last id when they were counted.")
    gone: list[str] = Field(description="What retention took of these topics.")


class PageRequest(Asked):
    """A page of a query; `after` of a page, as the query's, gives the next one."""

    query: QueryModel = QueryModel()
    limit: int = Field(default=100, ge=1, le=1_000)
    content: bool = Field(default=True, description="Whether to send the content.")


class Bytes(BaseModel):
    """Bytes that are no UTF-8."""

    hex: str


class Message(BaseModel):
    """A captured message."""

    id: int
    site: str
    topic: str
    partition: int
    offset: int
    time: int = Field(description="The record's, in ms since 1970.")
    captured: int = Field(description="In ms since 1970.")
    origin: str
    position: str = Field(description="Where it was published first: site/topic/partition/offset.")
    stream: str | None
    sequence: int | None
    size: int = Field(description="Bytes of the content.")
    metadata: dict[str, str | int | float]
    key: str | Bytes | None
    headers: list[tuple[str, str | Bytes]]
    value: str | Bytes | None = Field(default=None, description="Its content.")

    @classmethod
    def of(cls, message: CapturedMessage) -> "Message":
        """A message as JSON has it."""
        return cls.model_validate(as_json(message))


class MessagePage(BaseModel):
    """Messages in the log's order."""

    messages: list[Message]
    after: int | None = Field(description="The id to go on after; null: there are no more.")


class ReplayRequestModel(Asked):
    """What is to be published again. Nothing is, before the replay is started."""

    query: QueryModel
    to: dict[str, Topic] = Field(
        min_length=1,
        max_length=1_000,
        description="Captured topic → the topic that its messages go to, the same one only if it"
        ' is named here; "*" stands for all other topics.',
    )
    rate: Rate | None = None
    refused: Refused = Field(
        default="stop", description="Where the broker refuses a message for what it is."
    )
    actor: Actor
    reason: Reason


class Act(Asked):
    """Who does something, and why."""

    actor: Actor
    reason: Reason


class Resume(Act):
    """Who goes on with a replay, and why."""

    refused: Refused | None = Field(
        default=None, description="skip: leave out, from now on, what the broker refuses."
    )


class ActionModel(BaseModel):
    """What was done to a replay."""

    model_config = ConfigDict(from_attributes=True)

    at: int = Field(description="In ms since 1970.")
    action: str
    actor: str
    reason: str


class LeftOut(BaseModel):
    """A message that the broker refused, and that was left out."""

    message: int = Field(description="Its id in the log.")
    reason: str


class ReplayModel(BaseModel):
    """A replay: its frozen set, and how far it is."""

    id: str
    state: Literal["previewed", "running", "paused", "done", "cancelled", "failed"]
    why: str = Field(description="Why it is paused or failed, where the server did that.")
    messages: int = Field(description="How many are in the set.")
    done: int = Field(description="How many of them it is through with.")
    position: int = Field(description="The log's id of the last of these.")
    query: dict[str, Any] = Field(description="The frozen set.")
    to: dict[str, str]
    through_router: bool
    rate: float | None
    refused: Refused
    gone: list[str] = Field(description="What retention had taken when it was previewed.")
    created: int = Field(description="In ms since 1970.")
    actor: str
    reason: str

    @classmethod
    def of(cls, replay: Replay, **more: Any) -> Self:
        """A replay as JSON has it. more: what a class that says more needs."""
        same = ("id", "state", "why", "done", "position", "rate", "created", "actor", "reason")
        return cls.model_validate(
            {
                **{name: getattr(replay, name) for name in same},
                "messages": replay.count,
                "query": replay.query.to_json(),
                "to": dict(replay.targets),
                "through_router": replay.way != "direct",
                "refused": replay.on_refused,
                "gone": list(replay.holes),
                **more,
            }
        )


class ReplayDetail(ReplayModel):
    """A replay, what was done to it by whom and why, and what was left out."""

    actions: list[ActionModel]
    left_out: int = Field(description="Messages that the broker refused.")
    first_left_out: list[LeftOut]


class ReplayList(BaseModel):
    """Replays, the newest first."""

    replays: list[ReplayModel]


class ListRequest(Asked):
    """How much of a list."""

    limit: int = Field(default=100, ge=1, le=1_000)


class ReplayListRequest(ListRequest):
    """Which replays."""

    state: Literal["previewed", "running", "paused", "done", "cancelled", "failed"] | None = None


class RecoveryRequestModel(Asked):
    """A consumer asks for what it missed, on topics of its own."""

    topics: list[Topic] = Field(default=[], max_length=100, description="What it consumes.")
    application: str | None = Field(
        default=None, description="Instead of topics: an application of the server's file."
    )
    query: QueryModel = Field(
        default=QueryModel(),
        description="Which messages of its topics; through the router by the rules of now: which"
        " of the router's sources.",
    )
    way: Literal["direct", "router"] = "direct"
    rules: Literal["now", "then"] = Field(
        default="then",
        description="Through the router: routed again by the rules of now, or what the rules of"
        " then had published.",
    )
    positions: dict[Topic, dict[str, Id]] = Field(
        default={},
        description="Where the consumer stands: topic → partition → the next offset. What is from"
        " there on is read there, and not recovered.",
    )
    rate: Rate | None = None
    keep: int = Field(
        default=86_400, ge=1, le=LONGEST_KEEP, description="Seconds until its topics are deleted."
    )
    actor: Actor
    reason: Reason


class RecoveryModel(BaseModel):
    """A recovery, and how far it is."""

    id: str
    state: Literal["waiting", "running", "paused", "done", "cancelled", "failed", "closed"] = Field(
        description="done: each partition of its topics has its end mark, the header"
        " sequitur-recovery-end with this id."
    )
    why: str = Field(description="What it waits for; why it is paused or failed; who closed it.")
    topics: dict[str, str] = Field(description="The consumer's topic → the one to read instead.")
    partitions: dict[str, int] = Field(description="Topic → how many partitions both have.")
    through_router: bool
    messages: int | None = Field(description="How many are replayed; null: not known yet.")
    done: int
    gone: list[str] = Field(
        description="What is asked for and is not in the log: retention took it, or Kafka's before"
        " it was captured. It is final once the recovery has begun."
    )
    query: dict[str, Any]
    keep: int
    created: int = Field(description="In ms since 1970.")
    actor: str
    reason: str

    @classmethod
    def of(
        cls, recovery: Recovery, replay: Replay | None, waits: str, missing: Sequence[str]
    ) -> "RecoveryModel":
        """A recovery as JSON has it.

        Args:
            recovery: which.
            replay: None: it has not begun.
            waits: for what.
            missing: what is gone, in words.
        """
        state, why = "waiting", waits
        if replay is not None and replay.state is not ReplayState.PREVIEWED:
            state, why = replay.state.value, replay.why
        if recovery.closed is not None:
            state, why = "closed", recovery.closed
        same = ("id", "through_router", "keep", "created", "actor", "reason")
        return cls.model_validate(
            {
                **{name: getattr(recovery, name) for name in same},
                "state": state,
                "why": why,
                "topics": dict(recovery.topics),
                "partitions": dict(recovery.partitions),
                "messages": None if replay is None else replay.count,
                "done": 0 if replay is None else replay.done,
                "gone": gone(missing),
                "query": recovery.query.to_json(),
            }
        )


class RecoveryList(BaseModel):
    """Recoveries, the newest first."""

    recoveries: list[RecoveryModel]


class LogModel(BaseModel):
    """What the log has."""

    end: int = Field(description="The last id.")
    fields: dict[str, Literal["text", "integer", "number"]]
    topics: dict[str, dict[str, int]] = Field(
        description="Topic → partition → the offset behind what is captured."
    )
    applications: dict[str, list[str]]
    gone: list[str] = Field(description="What retention took.")


class Problem(BaseModel):
    """What was wrong, why, and what to do."""

    error: str


def gone(holes: Sequence[Hole | str]) -> list[str]:
    """What retention took, in words; as much as an answer holds."""
    more = [f"and {len(holes) - 100} more"] if len(holes) > 100 else []
    return [*map(str, holes[:100]), *more]
