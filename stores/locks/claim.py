"""Claims: who works on something in a read store just now, so that two at once are refused.

A claim is a line in the store, which its owner renews while it works. One that is not renewed for a
while is that of a dead process, and can be taken over. The line also names the shadow that the work
is done in, so that what a dead process left is recognised.
"""

import os
import socket
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import Self

from stores.db.urls import without_password
from stores.locks.claim_store import SECONDS, ClaimStore, ImplausibleClaim
from stores.sinks import StoreError
from stores.sinks.by_url import is_own, needs_spark

WAIT = SECONDS / 2
"""Seconds in which who is alive renews a claim."""


class Claim:
    """Claims names in the read store at `url` together. Methods raise StoreError.

    left: name → the shadow that an earlier owner left, where it did. seconds: until a claim that is
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
        except ImplausibleClaim as error:
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
                "has taken its work over; see that one"
            )

    def note(self, shadow: str) -> None:
        """The work is done in this shadow, '' for none any more."""
        self.check()
        self._lines.note(self.names, self.owner, shadow)

    def _renew_on(self) -> None:
        while not self._ended.wait(self._seconds / 4):
            with suppress(StoreError):  # it is tried again
                if not self._lines.renew(self.names, self.owner, self._seconds):
                    self._lost = True
                    return


def _lines(url: str) -> ClaimStore:
    if is_own(url):
        raise StoreError(
            f"read store {without_password(url)!r}: a rebuild notes in the store who works on "
            "what, which it cannot do in a store of your own; rebuild into one of Sequitur's"
        )
    if needs_spark(url):
        from stores.locks.file_claim import FileClaimStore

        return FileClaimStore(url)
    from stores.locks.sql_claim import SqlClaimStore

    return SqlClaimStore(url)
