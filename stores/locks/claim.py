"""Claims: who works on something in a read store just now, so that two at once are refused.

A claim is a line in the store, which its owner renews while it works. One that is not renewed for a
while is that of a dead process, and can be taken over. The line also names the side that the work
is done in, so that what a dead process left is recognised.
"""

import os
import socket
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from stores.sinks.by_url import needs_spark
from stores.sinks.sink import StoreError

SECONDS = 30.0
"""For how long a claim holds that is not renewed."""
PLAUSIBLE = round(4 * SECONDS * 1000)
"""Milliseconds beyond which no claim holds."""
WAIT = SECONDS / 2
"""Seconds in which who is alive renews a claim."""


class Held(NamedTuple):
    """One name's line. until: when it is void (ms). side: where the work is done, '' for nowhere.

    A line that is void stays as long as it names a side.
    """

    owner: str
    until: int
    side: str


class Lines(Protocol):
    """Where claims are kept. Methods raise StoreError."""

    def take(
        self, names: Sequence[str], owner: str, seconds: float, void: Collection[Held] = ()
    ) -> dict[str, str]:
        """Claim all names or none. Returns name → the side that an earlier owner left.

        void: lines that nobody renews, whatever time they say. Raises StoreError if somebody has
        one of the names, and Implausible.
        """
        ...

    def renew(self, names: Sequence[str], owner: str, seconds: float) -> bool:
        """Hold on to the names. Returns whether all of them are still the owner's."""
        ...

    def note(self, names: Sequence[str], owner: str, side: str) -> None:
        """Note the side of those names that are the owner's."""
        ...

    def release(self, names: Sequence[str], owner: str) -> None:
        """Let those names go that are the owner's."""
        ...

    def close(self) -> None:
        """Let go of the store."""
        ...


class Implausible(StoreError):
    """Names are held for longer than any claim holds: the clock was set back since. held: so."""

    def __init__(self, reason: str, held: Collection[Held]) -> None:
        super().__init__(reason)
        self.held = held


def taken_over(
    names: Sequence[str], lines: Mapping[str, Held], now: int, void: Collection[Held] = ()
) -> dict[str, str]:
    """Name → the side that its earlier owner left. Raises StoreError if a name is held."""
    left = {}
    found = {name: lines[name] for name in names if name in lines}
    ahead = [held for held in found.values() if held.until > now + PLAUSIBLE and held not in void]
    if ahead:
        raise Implausible(
            f"{ahead[0].owner} holds them by a clock that is ahead of this one", ahead
        )
    for name, held in found.items():
        if held.until > now and held not in void:
            raise StoreError(
                f"{name} is being rebuilt by {held.owner}; wait for it, or stop it. If it died it "
                f"can be taken over in {(held.until - now) / 1000:.0f} s"
            )
        if held.side:
            left[name] = held.side
    return left


class Claim:
    """Claims names in the read store at `url` together. Methods raise StoreError.

    left: name → the side that an earlier owner left, where it did. seconds: until a claim that is
    not renewed is void. A store that Spark writes is reached by this process's session.
    """

    def __init__(self, url: str, names: Iterable[str], seconds: float = SECONDS) -> None:
        self.names = sorted(names)
        self.owner = (
            f"process {os.getpid()} on {socket.gethostname()}, "
            f"since {time.strftime('%Y-%m-%d %H:%M:%S')}"
        )
        self.left: dict[str, str] = {}
        self._seconds = seconds
        self._lines = _lines(url)
        self._ended = threading.Event()
        self._lost = False
        self._thread = threading.Thread(target=self._renew_on, name="claim", daemon=True)

    def __enter__(self) -> Self:
        try:
            self.left = self._take()
        except BaseException:
            self._lines.close()
            raise
        self._thread.start()
        return self

    def _take(self) -> dict[str, str]:
        try:
            return self._lines.take(self.names, self.owner, self._seconds)
        except Implausible as error:
            # Who is alive renews it, by the clock as it is now.
            time.sleep(WAIT)
            return self._lines.take(self.names, self.owner, self._seconds, error.held)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        with suppress(StoreError):
            self._lines.release(self.names, self.owner)
        self._lines.close()

    def check(self) -> None:
        """Raise StoreError if somebody else has the claim by now."""
        if self._lost:
            raise StoreError(
                "this process was out of touch with the read store for so long that another one "
                "has taken its work over; look at that one"
            )

    def note(self, side: str) -> None:
        """The work is done in this side, '' for none any more."""
        self.check()
        self._lines.note(self.names, self.owner, side)

    def _renew_on(self) -> None:
        while not self._ended.wait(self._seconds / 4):
            with suppress(StoreError):  # it is tried again
                if not self._lines.renew(self.names, self.owner, self._seconds):
                    self._lost = True
                    return


def _lines(url: str) -> Lines:
    if needs_spark(url):
        from stores.locks.file_claim import FileLines

        return FileLines(url)
    from stores.locks.sql_claim import SqlLines

    return SqlLines(url)
