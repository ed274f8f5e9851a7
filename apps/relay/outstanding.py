"""Messages that were sent and not acknowledged, each with its timer; the rest of their streams."""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence

from stores.message import Message

Stream = tuple[str, str]


class Outstanding:
    """Streams with a message that was refused: it, and all that follows it, waits here in order.

    wait: seconds until a refused message is sent again, twice as long each time, up to `most`.
    """

    def __init__(self, wait: float = 0.2, most: float = 10.0) -> None:
        self._wait, self._most = wait, most
        self._held: dict[Stream, dict[int, Message]] = defaultdict(dict)
        self._times: dict[Stream, int] = {}
        self._timers: list[tuple[float, Stream]] = []
        self._count = 0
        self.bytes = 0

    def __len__(self) -> int:
        return self._count

    @property
    def next(self) -> float:
        """When something is to be sent again, infinite if nothing is."""
        return self._timers[0][0] if self._timers else float("inf")

    def admit(self, messages: Iterable[Message]) -> list[Message]:
        """Those that may be sent now; the others wait behind what their stream waits for."""
        free: list[Message] = []
        for message in messages:
            if (message.topic, message.stream) in self._held:
                self._put(message)
            else:
                free.append(message)
        return free

    def refuse(self, messages: Sequence[Message], now: float) -> None:
        """They were refused: send them again later."""
        for message in messages:
            self._put(message)
        for stream in {(message.topic, message.stream) for message in messages}:
            times = self._times[stream] = self._times.get(stream, 0) + 1
            due = now + min(self._wait * 2 ** (times - 1), self._most)
            heapq.heappush(self._timers, (due, stream))

    def take(self, now: float, limit: int) -> list[Message]:
        """Messages to send again: of each stream that is due the first ones, in order.

        They are no longer here: they are acknowledged, or refused once more. What of their stream
        is beyond the limit is due at once.
        """
        found: list[Message] = []
        while self._timers and self._timers[0][0] <= now and len(found) < limit:
            _, stream = heapq.heappop(self._timers)
            held = self._held.get(stream, {})
            for id in sorted(held)[: limit - len(found)]:
                message = held.pop(id)
                self._count -= 1
                self.bytes -= len(message.content)
                found.append(message)
            if held:
                heapq.heappush(self._timers, (now, stream))
        return found

    def settle(self, sent: Iterable[Message]) -> None:
        """What was taken and not refused again is acknowledged: streams without rest go on."""
        for stream in {(message.topic, message.stream) for message in sent}:
            if stream in self._held and not self._held[stream]:
                del self._held[stream]
                self._times.pop(stream, None)

    def _put(self, message: Message) -> None:
        held = self._held[message.topic, message.stream]
        if message.id not in held:
            held[message.id] = message
            self._count += 1
            self.bytes += len(message.content)
