"""The lines that claims are: who holds which name, until when, and when they may be taken over."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from stores.sinks import StoreError

SECONDS = 30.0
"""For how long a claim holds that is not renewed."""
PLAUSIBLE = round(4 * SECONDS * 1000)
"""Milliseconds beyond which no claim holds."""


class HeldClaim(NamedTuple):
    """One name's line. until: when it is void (ms). shadow: where the work is done, '' for nowhere.

    A line that is void stays as long as it names a shadow.
    """

    owner: str
    until: int
    shadow: str


class ClaimStore(Protocol):
    """Where claims are kept. Methods raise StoreError."""

    def take(
        self, names: Sequence[str], owner: str, seconds: float, void: Collection[HeldClaim] = ()
    ) -> dict[str, str]:
        """Claim all names or none. Returns name → the shadow that an earlier owner left.

        void: lines that nobody renews, whatever time they say. Raises StoreError if somebody has
        one of the names, and Implausible.
        """
        ...

    def renew(self, names: Sequence[str], owner: str, seconds: float) -> bool:
        """Hold on to the names. Returns whether all of them are still the owner's."""
        ...

    def note(self, names: Sequence[str], owner: str, shadow: str) -> None:
        """Note the shadow of those names that are the owner's."""
        ...

    def release(self, names: Sequence[str], owner: str) -> None:
        """Let those names go that are the owner's."""
        ...

    def close(self) -> None:
        """Let go of the store."""
        ...


class ImplausibleClaim(StoreError):
    """Names are held for longer than any claim holds: the clock was set back since. held: so."""

    def __init__(self, reason: str, held: Collection[HeldClaim]) -> None:
        super().__init__(reason)
        self.held = held


def taken_over(
    names: Sequence[str], lines: Mapping[str, HeldClaim], now: int, void: Collection[HeldClaim] = ()
) -> dict[str, str]:
    """Name → the shadow that its earlier owner left. Raises StoreError if a name is held."""
    left = {}
    found = {name: lines[name] for name in names if name in lines}
    ahead = [held for held in found.values() if held.until > now + PLAUSIBLE and held not in void]
    if ahead:
        raise ImplausibleClaim(
            f"{ahead[0].owner} holds them by a clock that is ahead of this one", ahead
        )
    for name, held in found.items():
        if held.until > now and held not in void:
            raise StoreError(
                f"{name} is being rebuilt by {held.owner}; wait for it, or stop it. If it died it "
                f"can be taken over in {(held.until - now) / 1000:.0f} s"
            )
        if held.shadow:
            left[name] = held.shadow
    return left
