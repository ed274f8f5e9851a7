"""Claims: who works on something in a read store just now, so that two at once are refused.

A claim is a line in the store, which its owner renews while it works. One that is not renewed for a
while is that of a dead process, and can be taken over. The line also names the side that the work
is done in, so that what a dead process left is recognised.
"""

import os
import socket
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from stores.sink import StoreError
from stores.sinks import needs_spark

SECONDS = 30.0
"""For how long a claim holds that is not renewed."""


class Held(NamedTuple):
    """One name's line. until: when it is void (ms). side: where the work is done, '' for nowhere.

    A line that is void stays as long as it names a side.
    """

    owner: str
    until: int
    side: str


class Lines(Protocol):
    """Where claims are kept. Methods raise StoreError."""

    def take(self, names: Sequence[str], owner: str, seconds: float) -> dict[str, str]:
        """Claim all names or none. Returns name → the side that an earlier owner left.

        Raises StoreError, of `refused`, if somebody has one of them.
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


def taken_over(names: Sequence[str], lines: Mapping[str, Held], now: int) -> dict[str, str]:
    """Name → the side that its earlier owner left. Raises StoreError if a name is held."""
    left = {}
    for name in names:
        held = lines.get(name)
        if held is None:
            continue
        if held.until > now:
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
            self.left = self._lines.take(self.names, self.owner, self._seconds)
        except BaseException:
            self._lines.close()
            raise
        self._thread.start()
        return self

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
        from stores.claims_files import FileLines

        return FileLines(url)
    from stores.claims_sql import SqlLines

    return SqlLines(url)
