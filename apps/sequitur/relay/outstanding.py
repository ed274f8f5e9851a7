"""Messages that were sent and not acknowledged, each with its timer; the rest of their streams."""

import heapq
import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from stores.message import Message

Key = tuple[str, str | None]
"""Topic and stream; None for a topic of which nothing is taken at all."""

ROOM = 100_000
ROOM_BYTES = 64 << 20
"""Messages, and bytes of their contents, that wait here; more of them wait in the log alone."""


class Outstanding:
    """Streams with a message that was refused: it, and all that follows it, waits here in order.

    wait: seconds until a refused message is sent again, twice as long each time, up to `most`. Of a
    topic that takes nothing one message is sent, until it is taken. Where there is no room for what
    waits, the head of its stream or topic stays, and what follows is left to the log: `anew` says
    that such a head was taken, and that the log has to be read again from its start. Contents may
    be left to the log, too: who takes messages reads them again.
    """

    def __init__(
        self, wait: float = 0.2, most: float = 10.0, room: int = ROOM, room_bytes: int = ROOM_BYTES
    ) -> None:
        self._wait, self._most = wait, most
        self._room, self._room_bytes = room, room_bytes
        self._held: dict[Key, dict[int, Message]] = {}
        self._left: set[Key] = set()
        self._tried: set[Key] = set()
        self._times: dict[Key, int] = {}
        self._due: dict[Key, float] = {}
        # The number settles ties: a topic has no stream to be compared by.
        self._timers: list[tuple[float, int, Key]] = []
        self._numbers = itertools.count()
        self._sizes: dict[int, int] = {}
        """Message → bytes of its content, where the log alone has that."""
        self._count = 0
        self.bytes = 0
        self.anew = False

    def __len__(self) -> int:
        return self._count

    @property
    def whole(self) -> set[str]:
        """Topics of which all waits."""
        return {topic for topic, stream in self._held if stream is None}

    @property
    def next(self) -> float:
        """When something is to be sent again, infinite if nothing is."""
        while self._timers and self._due.get(self._timers[0][2]) != self._timers[0][0]:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else float("inf")

    def admit(self, messages: Iterable[Message]) -> list[Message]:
        """Those that may be sent now; the others wait behind what their stream waits for."""
        if not self._held:
            return list(messages)
        free: list[Message] = []
        for message in messages:
            if (key := self._key(message)) in self._held:
                self._put(key, message)
            else:
                free.append(message)
        self._bound()
        return free

    def refuse(self, messages: Sequence[Message], now: float, topics: Collection[str] = ()) -> None:
        """They were refused: send them again later. topics: those that take nothing."""
        for topic in {message.topic for message in messages} & set(topics):
            self._gather(topic)
        for message in messages:
            self._put(self._key(message), message)
        for key in {self._key(message) for message in messages}:
            self._tried.discard(key)
            times = self._times[key] = self._times.get(key, 0) + 1
            self._wake(key, now + min(self._wait * 2.0 ** min(times - 1, 60), self._most))
        self._bound()

    def take(self, now: float, limit: int, room: int = ROOM_BYTES) -> list[Message]:
        """Messages to send again: of each stream that is due the first ones, in order.

        No more than `limit`, with `room` bytes of contents, but one at least.

        They are no longer here: they are acknowledged, or refused once more. What of their stream
        is beyond the limit is due at once.
        """
        found: list[Message] = []
        while self.next <= now and len(found) < limit and room > 0:
            key = heapq.heappop(self._timers)[2]
            del self._due[key]
            held = self._held[key]
            probe = key[1] is None and key not in self._tried
            for id in sorted(held)[: 1 if probe else limit - len(found)]:
                room -= self._sizes.get(id, len(held[id].content))
                if room < 0 and found:
                    break
                found.append(self._pop(held, id))
            if held:
                self._wake(key, now)
        return found

    def settle(self, sent: Iterable[Message]) -> None:
        """What was taken and not refused again is acknowledged: streams without rest go on."""
        if not self._held:
            return
        for key in {self._key(message) for message in sent} & self._held.keys():
            if self._held[key]:
                self._tried.add(key)
                continue
            self.anew |= key in self._left
            self._forget(key)

    def _key(self, message: Message) -> Key:
        whole = message.topic, None
        return whole if whole in self._held else (message.topic, message.stream)

    def _wake(self, key: Key, due: float) -> None:
        self._due[key] = due
        heapq.heappush(self._timers, (due, next(self._numbers), key))

    def _put(self, key: Key, message: Message) -> None:
        held = self._held.setdefault(key, {})
        if key in self._left and held and message.id > min(held):
            return  # the log has it
        if message.id not in held:
            held[message.id] = message
            self._count += 1
            self.bytes += len(message.content)

    def _pop(self, held: dict[int, Message], id: int) -> Message:
        message = held.pop(id)
        self._sizes.pop(id, None)
        self._count -= 1
        self.bytes -= len(message.content)
        return message

    def _forget(self, key: Key) -> None:
        del self._held[key]
        self._left.discard(key)
        self._tried.discard(key)
        for times in (self._times, self._due):
            times.pop(key, None)

    def _gather(self, topic: str) -> None:
        """Let all streams of a topic wait as one."""
        whole: Key = topic, None
        if whole in self._held:
            return
        together: dict[int, Message] = {}
        for key in [key for key in self._held if key[0] == topic]:
            together |= self._held[key]
            if key in self._left:
                self._left.add(whole)
            self._forget(key)
        self._held[whole] = together
        if together:
            self._wake(whole, 0.0)

    def _bound(self) -> None:
        """Leave to the log what is too much: what follows in a long stream, or in all of them; then
        the contents; then, of a topic with too many such streams, all but one message."""
        while self._count > self._room or self.bytes > self._room_bytes:
            key = max(self._held, key=lambda each: sum(self._size(each)))
            if len(self._held[key]) > 1 and len(self._held[key]) * 100 >= self._count:
                self._leave(key)
            elif self._count > sum(map(bool, self._held.values())):
                for each in self._held:
                    self._leave(each)
            elif self.bytes > self._room_bytes:
                self._leave_contents()
            else:
                (topic, number), *_ = Counter(topic for topic, _ in self._held).most_common(1)
                if number < 2:
                    return
                self._gather(topic)
                self._leave((topic, None))

    def _leave(self, key: Key) -> None:
        """Leave all that follows the head of a stream or topic to the log."""
        held = self._held[key]
        if len(held) > 1:
            self._left.add(key)
            for id in sorted(held)[1:]:
                self._pop(held, id)

    def _leave_contents(self) -> None:
        """Leave the contents to the log: what is sent again is read again."""
        for held in self._held.values():
            for id, message in held.items():
                if message.content:
                    self._sizes[id] = len(message.content)
                    held[id] = replace(message, content=b"")
        self.bytes = 0

    def _size(self, key: Key) -> tuple[int, int]:
        """Its share of the room, in thousandths: of messages, and of bytes."""
        held = self._held[key]
        size = sum(len(message.content) for message in held.values())
        return len(held) * 1000 // self._room, size * 1000 // self._room_bytes
