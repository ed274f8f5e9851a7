"""The collector looks seldom, later where much is known to be in use, and finds what is garbage."""

import gc
from collections.abc import Iterator
from weakref import ref

import pytest

from topology.model.collector import COLLECTOR, KnownObjects


class Knot:
    """Refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*COLLECTOR)
    yield
    gc.set_threshold(*before)


def test_it_looks_later_by_what_is_known_to_be_in_use() -> None:
    known = KnownObjects()
    known.note("a partition", 500)
    known.note("another", 7)
    assert gc.get_threshold()[0] == COLLECTOR[0] + 507
    known.note("a partition", 20)
    known.note("another", 0)
    assert gc.get_threshold()[:2] == (COLLECTOR[0] + 20, COLLECTOR[1])


def test_a_collector_that_forgets_its_third_threshold_looks_later_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As an incremental one does."""
    ask = gc.get_threshold
    monkeypatch.setattr(gc, "get_threshold", lambda: (*ask()[:2], 0))
    known = KnownObjects()
    known.note("a partition", 500)
    known.note("another", 7)
    assert ask()[0] == COLLECTOR[0] + 507


def test_garbage_is_found_when_more_was_made_than_is_known() -> None:
    KnownObjects().note("a partition", 50_000)
    gc.collect()
    lost = ref(Knot())
    made = [[] for _ in range(COLLECTOR[0] + 40_000)]  # type: ignore[var-annotated]
    assert lost() is not None
    made += [[] for _ in range(20_000)]
    assert lost() is None


def test_thresholds_that_somebody_else_has_set_stay() -> None:
    known = KnownObjects()
    known.note("a partition", 500)
    gc.set_threshold(700, 10, 10)
    known.note("a partition", 0)
    assert gc.get_threshold()[:2] == (700, 10)
