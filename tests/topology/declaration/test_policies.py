"""Policies: small values, and the mistakes in them."""

from collections.abc import Callable
from typing import Any

import pytest

from topology import DeclarationError, advance, contiguous, skip, spill, wait


def mistake(declare: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    with pytest.raises(DeclarationError) as error:
        declare(*arguments, **options)
    return str(error.value)


def test_policies_are_values() -> None:
    assert skip(after=15) == skip(15.0)
    assert (skip(after=1).after, contiguous(5, 2).start, contiguous(5, 2).step) == (1.0, 5, 2)
    assert (wait(), spill(), advance()) == (wait(), spill(), advance())
    assert contiguous() == contiguous(start=1, step=1)
    assert len({wait(), wait(), skip(1), skip(1)}) == 2


@pytest.mark.parametrize("after", [0, -1, "15", None, True, float("nan"), float("inf")])
def test_a_gap_that_is_skipped_after_no_time(after: Any) -> None:
    assert f"skip(after={after!r})" in mistake(skip, after)


@pytest.mark.parametrize("start", ["1", None, 1.0, True, 2**63, -(2**63) - 1])
def test_a_sequence_that_starts_nowhere(start: Any) -> None:
    assert f"contiguous(start={start!r})" in mistake(contiguous, start=start)


@pytest.mark.parametrize("step", [0, -1, "1", None, 1.0, True])
def test_a_sequence_that_does_not_advance(step: Any) -> None:
    assert f"contiguous(step={step!r})" in mistake(contiguous, step=step)
