"""Read stores that are opened: to be looked at, or anew when other tables are declared."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Event

from sequitur.materialize.outputs import Outputs
from sequitur.spark.spark_submit import stopped_in_order
from stores.db.urls import existing
from stores.sinks import Sink, StoreError, open_sink
from stores.sinks.by_url import needs_spark


@contextmanager
def opened(url: str, shadow: str | None = None) -> Iterator[Sink]:
    """A read store that is there, with Spark where that writes it.

    Raises StoreError, also where there are no such shadow tables; UrlError.
    """
    with ExitStack() as stack:
        if needs_spark(url):
            from sequitur.spark.session import spark_session

            stack.enter_context(stopped_in_order(spark_session("look", delta=True), Event()))
        if shadow is not None:  # which would be made
            with open_sink(existing(url)) as live:
                there = live.shadows()
            if shadow not in there:
                raise StoreError(
                    f"shadow tables {shadow!r} are not there; there are: "
                    f"{', '.join(there) or 'none'}"
                )
        yield stack.enter_context(open_sink(existing(url), shadow=shadow))


def dead_by_topic(sink: Sink) -> Counter[str]:
    """How many records of each topic the tables lack, kept or removed. Raises StoreError."""
    found = Counter[str]()
    for topic, _, kept, removed in sink.dead_counts():
        found[topic] += kept + removed
    return found


def dead_of(sink: Sink, topics: Iterable[str]) -> int:
    """How many records of these topics the tables lack. Raises StoreError."""
    found = dead_by_topic(sink)
    return sum(found[topic] for topic in set(topics))


class OpenSink:
    """The sink at `url` that a materializer writes, once it is opened."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._sink: Sink | None = None
        self._outputs: Outputs | None = None

    @property
    def sink(self) -> Sink:
        assert self._sink is not None
        return self._sink

    def open(self, outputs: Outputs) -> None:
        """Open it with these declared tables, unless it is open. Raises StoreError."""
        if self._sink is None:
            self._sink, self._outputs = open_sink(self._url, outputs.tables), outputs

    def reopen(self, outputs: Outputs) -> StoreError | None:
        """Open it with other tables; where the store refuses them, as before. Returns why it does.

        Raises StoreError where it cannot be opened as before either.
        """
        before = self._outputs
        assert before is not None
        self.close()
        try:
            self.open(outputs)
        except StoreError as refused:
            self.open(before)
            return refused
        return None

    def takes(self, outputs: Outputs) -> bool:
        """Whether the store takes other tables, as it is by now."""
        try:
            open_sink(self._url, outputs.tables).close()
        except StoreError:
            return False
        return True

    def dead(self, topics: Iterable[str]) -> int:
        """See `dead_of`."""
        return dead_of(self.sink, topics)

    def close(self) -> None:
        """Let go of the store, if it is open."""
        if self._sink is not None:
            self._sink.close()
            self._sink = None
