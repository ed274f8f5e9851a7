"""Whatever a plug-in raises, it is its message that fails."""

import asyncio
from typing import Any

import pytest

from tests.topology.routing.messages import message
from topology import Malformed
from topology.routing import FunctionKeys, RoutedSource, Rule, RuleSet, Transformation, when
from topology.routing.transformations import run


class Panic(BaseException):
    """As an extension in Rust raises it."""


RAISED = [Panic("index out of range"), SystemExit(3), asyncio.CancelledError(), GeneratorExit()]


@pytest.mark.parametrize("error", RAISED)
def test_a_module_that_raises_what_is_no_exception_fails_the_message(error: BaseException) -> None:
    def failing(_: Any) -> dict[str, Any]:
        raise error

    rules = RuleSet(
        1,
        sources=[RoutedSource("in", ("all",), module="failing")],
        rules=[Rule("all", when=(when("n", exists=True),), to=("out",))],
        destinations={"out": None},
        modules={"failing": FunctionKeys(failing)},
    )
    routing = rules.route(message(b"{}"))
    assert routing.outcome == "failed"
    assert f"module failed: {type(error).__name__}" in str(routing.reason)


@pytest.mark.parametrize("error", RAISED)
def test_a_transformation_that_raises_what_is_no_exception_fails_the_message(
    error: BaseException,
) -> None:
    def failing(*_: Any) -> bytes:
        raise error

    with pytest.raises(Malformed, match=f"'t' failed: {type(error).__name__}"):
        run(Transformation("t", "a", "b", failing), b"x", message(b"x"))
