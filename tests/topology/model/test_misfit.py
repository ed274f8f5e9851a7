"""A function that cannot be called with what it will be given is refused where it is declared."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest

from tests.only_checked import only_checked
from topology import DeclarationError, Event
from topology.model.names import misfit, one_argument


def test_a_decorator_may_give_the_function_behind_it_more_than_it_gets() -> None:
    def with_rates(function: Callable[[Any, float], Any]) -> Callable[[Any], Any]:
        @wraps(function)
        def supplied(each: Any) -> Any:
            return function(each, 2.0)

        return supplied

    @with_rates
    def kind(event: Event, rate: float) -> str:
        return f"{event.kind}{rate}"

    one_argument("lane=kind", kind, "event")


@pytest.mark.parametrize(
    ("function", "takes", "fits"),
    [
        (max, 2, True), (int, 0, True), (lambda a: a, 1, True), (lambda a, b=1: a, 1, True),
        (lambda *each: each, 3, True), (lambda: 1, 0, True), (lambda a: a, 2, False),
        (lambda a, b: a, 1, False), (lambda: 1, 1, False), (lambda a, *, b: a, 1, False),
    ],
)  # fmt: skip
def test_what_fits(function: Callable[..., object], takes: int, fits: bool) -> None:
    assert (misfit(function, takes) is None) is fits


def test_what_does_not_fit_is_named_with_its_arguments() -> None:
    with pytest.raises(DeclarationError, match=r"one event, since its arguments are \(a, b\)"):
        one_argument("lane=…", lambda a, b: a, "event")


def test_annotations_that_only_a_type_checker_reads_hide_no_misfit() -> None:
    function = only_checked("event: Missing, other: missing.Thing")
    assert misfit(function, 2) is None
    assert misfit(function, 1) is not None
