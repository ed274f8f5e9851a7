"""Which partition of a topic a record goes to."""

from collections.abc import Awaitable, Callable

from aiokafka.partitioner import DefaultPartitioner

_KEYS_CACHED = 200_000


class Partitions:
    """Partition counts of topics, and murmur2 of keys like Kafka's own clients; both remembered.

    ensure: (topic, partitions) → how many partitions the topic has; it is made if it is not there.
    """

    def __init__(self, ensure: Callable[[str, int], Awaitable[int]]) -> None:
        self._ensure = ensure
        self._counts: dict[str, int] = {}
        self._by_key: dict[tuple[int, bytes], int] = {}
        self._turn = 0
        self.limits: dict[str, int] = {}
        """Topic → bytes of a record batch, of those that are known to take no larger ones."""

    async def count(self, topic: str, wanted: int) -> int:
        """How many partitions a topic has; one that a handler names first is made with `wanted`."""
        found = self._counts.get(topic)
        if found is None:
            found = self._counts[topic] = await self._ensure(topic, wanted)
        return found

    def forget(self) -> None:
        """Ask for topics anew: one may have been deleted."""
        self._counts.clear()

    def of(self, key: bytes | None, count: int) -> int:
        """The partition of a key; records without a key take turns."""
        if key is None:
            self._turn += 1
            return self._turn % count
        found = self._by_key.get((count, key))
        if found is None:
            if len(self._by_key) >= _KEYS_CACHED:
                self._by_key.clear()
            numbers = list(range(count))
            found = DefaultPartitioner()(key, numbers, numbers)
            self._by_key[count, key] = found
        return found
