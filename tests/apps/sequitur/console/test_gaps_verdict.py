"""The page of gaps says that nothing is missing only where nothing else is told either."""

import pytest

from sequitur.console.pages.gaps import verdict
from topology.diagnostics.explain import Ledger
from topology.diagnostics.explain.bad_news import HALTED, Trouble


def test_where_nothing_is_told_nothing_is_missing() -> None:
    assert verdict(Ledger(0, 10)) == (True, "Nothing is missing.")


@pytest.mark.parametrize(
    "ledger",
    [
        Ledger(0, 10, troubles=[Trouble("view board", HALTED, "halted in partition 0: no")]),
        Ledger(0, 10, unread=3),
        Ledger(0, 10, unseen=["only the last …"]),
    ],
)
def test_what_else_is_not_well_is_not_passed_over(ledger: Ledger) -> None:
    assert verdict(ledger) == (False, "Nothing waits for something that is missing, but:")


def test_gaps_are_counted() -> None:
    ledger = Ledger(0, 10, streams=1, sequences=4)
    assert verdict(ledger) == (False, "1 gap, with 4 missing sequences")
