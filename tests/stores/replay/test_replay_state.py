"""What may be done to a replay, and that what has ended stays so."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.replay.errors import WrongState
from stores.replay.replay_state import ReplayAction, ReplayState, after

A, S = ReplayAction, ReplayState


def state_of(actions: list[ReplayAction]) -> ReplayState:
    state = S.PREVIEWED
    for action in actions:
        with suppress(WrongState):
            state = after(state, action)
    return state


@given(st.lists(st.sampled_from(list(A))), st.lists(st.sampled_from(list(A))))
def test_what_has_ended_stays_so_and_nothing_runs_that_nobody_started(
    before: list[ReplayAction], more: list[ReplayAction]
) -> None:
    state = state_of(before)
    if state.ended:
        assert state_of([*before, *more]) is state
    if A.START not in before:
        assert state in (S.PREVIEWED, S.CANCELLED)
    if state is S.DONE:
        # It was running when it was finished: since the last pause somebody resumed it.
        steps = before[: before.index(A.FINISH)] if before.count(A.FINISH) == 1 else before
        assert A.START in steps
    if not state.ended:
        assert state_of([*before, A.CANCEL]) is S.CANCELLED


@given(st.sampled_from(list(S)), st.sampled_from(list(A)))
def test_each_action_has_one_outcome_and_a_refusal_says_what_is_possible(
    state: ReplayState, action: ReplayAction
) -> None:
    try:
        then = after(state, action)
    except WrongState as error:
        words = str(error)
        assert words.startswith(f"it is {state}, and {action} is for one that is ")
        assert ("it has ended" in words) == state.ended
        return
    assert then is not state
    with pytest.raises(WrongState):  # nothing can be done twice in a row
        after(then, action)
