"""Claims as numbered files beside the tables of a read store that Spark writes.

The last file says all. Whoever changes something writes the next one, which only one can; who was
too late looks again. A process that is killed leaves a whole file or none.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import orjson
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from stores.locks.claim_store import HeldClaim, taken_over
from stores.sinks import StoreError
from stores.sinks.by_url import delta_folder
from stores.sinks.delta.files import HadoopFiles
from stores.sinks.delta.numbered_files import NumberedFiles, VersionConflict

FOLDER = "_claims"
ATTEMPTS = 50
"""To write the next file while others do, too."""

T = TypeVar("T")
Claims = dict[str, HeldClaim]


class FileClaimStore:
    """See `ClaimStore`; the time is this machine's, so those of several machines have to agree."""

    def __init__(self, url: str) -> None:
        self._folder = delta_folder(url)
        spark = SparkSession._instantiatedSession
        if spark is None:
            raise StoreError(f"read store {self._folder}: there is no Spark session to reach it")
        with self._errors():
            self._files = NumberedFiles(HadoopFiles(spark, self._folder), FOLDER)

    def take(
        self, names: Sequence[str], owner: str, seconds: float, void: Collection[HeldClaim] = ()
    ) -> dict[str, str]:
        """See `ClaimStore.take`."""

        def change(claims: Claims) -> dict[str, str]:
            now = _now()
            left = taken_over(names, claims, now, void)
            until = now + round(seconds * 1000)
            claims.update({name: HeldClaim(owner, until, left.get(name, "")) for name in names})
            return left

        return self._change(change)

    def renew(self, names: Sequence[str], owner: str, seconds: float) -> bool:
        """See `ClaimStore.renew`."""
        until = _now() + round(seconds * 1000)
        return self._set(names, owner, lambda held: held._replace(until=until)) == len(names)

    def note(self, names: Sequence[str], owner: str, shadow: str) -> None:
        """See `ClaimStore.note`."""
        self._set(names, owner, lambda held: held._replace(shadow=shadow))

    def release(self, names: Sequence[str], owner: str) -> None:
        """See `ClaimStore.release`."""
        self._set(names, owner, lambda held: held._replace(until=0))

    def close(self) -> None:
        """Nothing is open."""

    def _set(
        self, names: Sequence[str], owner: str, changed: Callable[[HeldClaim], HeldClaim]
    ) -> int:
        """Change the lines that are the owner's. Returns how many."""

        def change(claims: Claims) -> int:
            mine = [n for n in names if n in claims and claims[n].owner == owner]
            claims.update({name: changed(claims[name]) for name in mine})
            return len(mine)

        return self._change(change)

    def _change(self, change: Callable[[Claims], T]) -> T:
        for _ in range(ATTEMPTS):
            with self._errors():
                last = max(self._files.versions(), default=-1)
                claims: Claims = {}
                if last >= 0:
                    found = orjson.loads(self._files.content(last))
                    claims = {name: HeldClaim(*held) for name, held in found.items()}
                done = change(claims)
                kept = {n: list(held) for n, held in claims.items() if held.until or held.shadow}
                try:
                    self._files.add(last + 1, orjson.dumps(kept))
                except VersionConflict:
                    continue
                return done
        raise StoreError(f"read store {self._folder}: somebody else writes its claims all the time")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (Py4JError, ConnectionError, ValueError, TypeError) as error:
            raise StoreError(f"read store {self._folder}: its claims: {error}") from error


def _now() -> int:
    return time.time_ns() // 1_000_000
