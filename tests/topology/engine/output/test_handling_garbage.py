"""Handlers that yield what nobody could write: their event fails, and nothing of it is left."""

from typing import Any

import pytest

from tests.topology.handled import failure, run
from topology import Delete, Emit, Event, Upsert


class Thing:
    """What JSON cannot hold, under the same name in every process."""

    def __repr__(self) -> str:
        return "a thing"


GARBAGE = [
    "text",
    5,
    None,
    {"op": "upsert"},
    Upsert,
    Thing(),
    Upsert("t", {}, {"n": 1}),
    Delete("t", {}),
    Upsert("t", 5, {"n": 1}),  # type: ignore[arg-type]
    Upsert("t", ["id"], {"n": 1}),  # type: ignore[arg-type]
    Upsert("t", {"id": 1}, None),  # type: ignore[arg-type]
    Upsert("t", {"id": 1}, [("n", 1)]),  # type: ignore[arg-type]
    Upsert(None, {"id": 1}, {}),  # type: ignore[arg-type]
    Upsert("", {"id": 1}, {}),
    Delete("t", "id"),  # type: ignore[arg-type]
    Upsert("t", {"id": 1}, {"n": Thing()}),
    Upsert("t", {"id": 1}, {"n": 2**70}),
    Upsert("t", {"id": 1}, {"n": "\ud800"}),
    Emit("log", 5, {}),  # type: ignore[arg-type]
    Emit("log", "\ud800", {}),
    Emit("log", "a", Thing()),
    Emit("", "a", {}),
    Emit(None, "a", {}),  # type: ignore[arg-type]
    Emit("a topic", "a", {}),
    Emit("log", "a", {}, headers=(("trace", "text"),)),  # type: ignore[arg-type]
    Emit("log", "a", {}, headers=("trace",)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda item: repr(item)[:60])
def test_garbage_fails_its_event_and_nothing_of_it_is_written(garbage: Any) -> None:
    """What neither a read store nor a broker could take must not leave the handler."""
    good = [Upsert("t", {"id": 0}, {"n": 0}), Emit("log", "a", {})]
    driver = run(lambda event: [*good, garbage])

    assert failure(driver)
    assert driver.read("shop.board") == driver.read("log") == []
    assert driver.table("t") == {}


@pytest.mark.parametrize(
    "large", [Upsert("t", {"id": 1}, {"n": "x" * 1_000_000}), Emit("log", "a", b"x" * 1_000_001)]
)
def test_an_output_that_is_too_large_fails_its_event(large: Any) -> None:
    driver = run(lambda event: [Emit("log", "a", {}), large])
    assert "the limit is 1000000" in failure(driver)
    assert driver.read("log") == []


@pytest.mark.parametrize("value", [Thing(), {1, 2}, 2**70, "\ud800", b"bytes", {1: 2}])
def test_state_that_json_cannot_hold_fails_its_event(value: Any) -> None:
    def handler(event: Event, state: dict[str, Any]) -> list[Upsert]:
        state["good" if event.sequence != 2 else "bad"] = 1 if event.sequence != 2 else value
        return [Upsert("t", {"id": event.sequence}, {})]

    driver = run(handler, count=3)
    assert failure(driver).startswith("HandlerError")
    assert driver.state("board", "a") == {"good": 1}
    assert [value["sequence"] for value in driver.read_json("shop.board")] == [1, 3]


@pytest.mark.parametrize(
    ("result", "what"),
    [
        (5, "a value of type int"),
        (True, "a value of type bool"),
        ("text", "a value of type str"),
        (b"text", "a value of type bytes"),
        ({"a": 1}, "a value of type dict"),
        (Upsert("t", {"id": 1}, {}), "one Upsert"),
        (Delete("t", {"id": 1}), "one Delete"),
        (Emit("log", None, {}), "one Emit"),
    ],
)
@pytest.mark.parametrize("timeout", [None, 5])
def test_a_handler_that_returns_something_else_is_told_what_to_return(
    result: Any, what: str, timeout: float | None
) -> None:
    async def awaited(event: Event) -> Any:
        return result

    for handler in (lambda event: result, awaited):
        error = failure(run(handler, timeout=timeout))
        assert f"HandlerError: the handler returned {what}; yield each Upsert, Delete" in error


def test_a_plain_function_that_returns_a_coroutine_is_told_to_be_async() -> None:
    async def work(event: Event) -> None:
        """Has nothing to say."""

    assert "declare it with `async def`" in failure(run(lambda event: work(event)))
