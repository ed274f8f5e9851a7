"""A shadow follows the output topics until it is as near to the live tables as it comes."""

from collections.abc import Iterator
from typing import Any

import pytest

from sequitur.rebuild.switch import BEHIND, IN_VAIN, Follow


class FakeFollower:
    """Is so many offsets behind at each look, and has nothing to take."""

    def __init__(self, behind: Iterator[int]) -> None:
        self._behind = behind
        self.steps = 0

    def behind(self) -> int:
        return next(self._behind)

    def take(self) -> list[Any]:
        self.steps += 1
        return []


def followed(*behind: int) -> int:
    """How many steps it takes; the last of them is to see that nothing is left."""
    follow = Follow.__new__(Follow)
    follower: Any = FakeFollower(iter(behind))
    follow._follower, follow._check = follower, lambda: None
    follow.catch_up()
    return int(follower.steps) - 1


def test_until_little_is_left() -> None:
    assert followed(BEHIND * 3, BEHIND * 2, BEHIND) == 2
    assert followed(BEHIND) == 0


def test_while_more_comes_than_it_takes_in_a_step_it_does_not_follow_for_ever() -> None:
    far = BEHIND * 5
    assert followed(far, *[far + n for n in range(IN_VAIN)]) == IN_VAIN
    assert followed(far, far, far, far - 1, *[far] * IN_VAIN) == 3 + IN_VAIN


def test_it_goes_on_while_it_gains() -> None:
    with pytest.raises(StopIteration):
        followed(*range(BEHIND + 100, BEHIND, -1))
