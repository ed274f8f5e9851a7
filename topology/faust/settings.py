"""What a worker takes from its environment: SEQUITUR_BROKER, SEQUITUR_DATADIR and so on."""

from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from topology.model.address import read_address, read_brokers
from topology.model.duration import seconds_of
from topology.model.topic_retention import SIDE_DAYS
from topology.sequencer.memory_budget import BYTES

Guarantee = Literal["exactly_once", "at_least_once"]
"""How a worker commits: in Kafka transactions, or by acknowledged writes alone."""


class Settings(BaseSettings):
    """Settings of a worker.

    Each can be given as an argument of `compile` or in the environment, as SEQUITUR_BROKER for
    `broker`; the argument wins.

    Attributes:
        broker: the Kafka brokers, host:port; several are joined by ',' or ';'.
        datadir: the worker's folder. Each worker on a machine needs its own.
        view_state: where view state is kept, see `stores.view_state`: a URL, `module:function`, or
            `@FILE` for a file that the URL is in; RocksDB in `datadir` unless given.
        group: consumer group, and prefix of transactional ids and changelog topics; the topology's
            name unless given.
        guarantee: "exactly_once" commits outputs, state and offsets in one Kafka transaction.
            "at_least_once" may repeat outputs after a crash, with the same key, view and sequence.
        waiting_bytes: bytes of memory for the events that wait in a partition, over all its views
            and streams. What exceeds them is on disk only.
        batch: the most records of a step of a partition, from 1 to 50000. A step takes more than
            4000 only in a backlog: twice as many where the one before took less than half a
            second, half as many where it took more than two.
        fetch_bytes: the most bytes of a fetch of a partition, 1024 at least.
        session_timeout: seconds until the partitions of a dead worker move to others; in the
            environment a duration with its unit, such as 10s.
        instance: the worker's name over restarts (Kafka's static membership). A worker that comes
            back within `session_timeout` gets its partitions back at once.
        replication: replicas of the topics that the worker creates; -1 for the broker's default.
        read_ahead: seconds of the records' own time by which a partition of a source that is not
            keyed may be read ahead of the slowest one, while there is something left to read in
            both; -1 for no bound.
        short_waits: whether what waits for less than some seconds is in memory only, and read
            again from the input after a crash.
        replay_log: the database of a replay log, a URL or `@FILE`, from which rebuilds of streams
            take what the input topic no longer has.
        metrics: the port, or host:port, where the worker answers /metrics, /health and /ready; a
            port alone is one of this machine's own, 127.0.0.1. Without it nothing listens.
        queries: the port, or host:port, where the worker answers queries of the state of its
            views; as of `metrics`.
        queries_url: where other workers and clients reach that; `queries` unless given.
        side_retention_days: days that the side topics (late, dead, errors, parked, malformed,
            unknown, audit) keep their records when they are created; -1 for ever.
    """

    # What is wrong may be a secret in the wrong place: errors and tracebacks show none of it.
    model_config = SettingsConfigDict(
        env_prefix="SEQUITUR_", extra="forbid", hide_input_in_errors=True
    )

    broker: str = "127.0.0.1:9092"
    datadir: str = ".sequitur/data"
    view_state: str = Field(default="rocksdb", repr=False)
    group: str | None = None
    guarantee: Guarantee = "exactly_once"
    waiting_bytes: int = Field(default=BYTES, ge=0)
    batch: int = Field(default=16_000, ge=1, le=50_000)
    fetch_bytes: int = Field(default=4 << 20, ge=1 << 10)
    session_timeout: float = Field(default=10.0, gt=0)
    instance: str | None = None
    replication: int = Field(default=-1, ge=-1)
    read_ahead: float = Field(default=1.0, ge=-1)
    short_waits: bool = True
    replay_log: str | None = Field(default=None, repr=False)
    metrics: str | None = None
    queries: str | None = None
    queries_url: str | None = None
    side_retention_days: float = Field(default=SIDE_DAYS, le=1e6)

    @field_validator("session_timeout", "read_ahead", mode="before")
    @classmethod
    def _with_its_unit(cls, value: Any) -> Any:
        if value == "-1":
            return -1
        return seconds_of(value) if isinstance(value, str) else value

    @field_validator("metrics", "queries", mode="before")
    @classmethod
    def _address(cls, value: Any) -> str | None:
        return None if value is None else read_address(value)

    @model_validator(mode="after")
    def _reached(self) -> Self:
        if self.queries is None or self.queries_url is not None:
            return self
        host, _, port = self.queries.rpartition(":")
        if port == "0" or host.strip("[]") in ("0.0.0.0", "::"):
            raise ValueError(
                f"queries: other workers do not reach {self.queries}; say with queries_url where "
                "they do, and give a port"
            )
        self.queries_url = f"http://{self.queries}"
        return self

    @field_validator("side_retention_days")
    @classmethod
    def _kept_for_a_time(cls, value: float) -> float:
        if value != -1 and not value > 0:
            raise ValueError("it must be a number of days above 0, or -1 for ever")
        return value

    @field_validator("broker")
    @classmethod
    def _without_scheme(cls, value: str) -> str:
        return read_brokers(value).replace(",", ";")
