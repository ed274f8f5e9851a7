"""What a kind touches is learned: the event's own stream, a fixed key, or all of a place."""

import pytest

from topology.ordered_commit import Key, OpenEvent, Touched
from topology.ordered_commit.touched_keys import KINDS, RUNS, SPACES, LearnedTouches


def learned(*runs: tuple[str | None, set[Key]], times: int = RUNS) -> LearnedTouches:
    touches = LearnedTouches()
    for offset in range(times):
        stream, keys = runs[offset % len(runs)]
        touches.learn(event(stream, offset), Touched.of(keys))
    return touches


def event(stream: str | None, offset: int = 0, kind: str = "kind") -> OpenEvent:
    return OpenEvent(offset, stream, kind, 1, 0.0)


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([("a", ("t", "a")), ("b", ("t", "b"))], {("t", "new")}),
        ([("a", ("t", "sum")), ("b", ("t", "sum"))], {("t", "sum")}),
        ([("a", ("t", "x")), ("b", ("t", "y"))], {("t", None)}),
        ([("a", ("t", None))], {("t", None)}),
        ([("a", ("t", "a")), ("b", ("t", "sum"))], {("t", "new"), ("t", "sum")}),
        ([("a", ("t", ""))], {("t", "")}),
    ],
    ids=["its stream", "a fixed key", "varies", "all of it", "both", "an empty key"],
)
def test_what_is_learned_of_a_kind(runs: list[tuple[str, Key]], expected: set[Key]) -> None:
    touches = learned(*((stream, {key}) for stream, key in runs))
    assert touches.predict(event("new")) == Touched.of(expected)


def test_what_events_touch_by_their_stream_is_anything_for_one_without() -> None:
    assert learned(("a", {("t", "a")})).predict(event(None)) == Touched.of([("t", None)])


def test_a_kind_of_few_runs_is_unknown() -> None:
    assert learned(("a", {("t", "a")}), times=RUNS - 1).predict(event("a")) is None
    assert LearnedTouches().predict(event("a")) is None


def test_what_is_declared_goes_before_what_is_learned() -> None:
    declared = OpenEvent(0, "a", "kind", 1, 0.0, Touched.of([("t", "declared")]))
    assert learned(("a", {("t", "a")})).predict(declared) == declared.touches


def test_more_kinds_and_places_than_are_learned_stay_unknown() -> None:
    touches = LearnedTouches()
    for number in range(KINDS + 1):
        for _ in range(RUNS):
            touches.learn(event("a", kind=str(number)), Touched())
    assert touches.predict(event("a", kind=str(KINDS - 1))) == Touched()
    assert touches.predict(event("a", kind=str(KINDS))) is None
    many = learned(("a", {(str(number), "a") for number in range(SPACES + 1)}))
    assert many.predict(event("a")) is None
