"""A view whose handler fails for some events, and what its account says first."""

from topology import (
    Event,
)
from topology.diagnostics.explain import Account, account_text


def board(event: Event) -> None:
    if event.kind == "Bad":
        raise ValueError("not yet")


def first(found: Account) -> str:
    return account_text(found).splitlines()[0]
