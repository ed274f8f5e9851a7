"""The states of a replay, and what may be done in each. Pure."""

from collections.abc import Mapping
from enum import StrEnum

from stores.replay.errors import WrongState


class ReplayState(StrEnum):
    """Where a replay is."""

    PREVIEWED = "previewed"
    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        """Whether nothing more happens to it."""
        return self in (ReplayState.DONE, ReplayState.CANCELLED, ReplayState.FAILED)


class ReplayAction(StrEnum):
    """What is done to a replay: by somebody, and the last three by the server."""

    START = "start"
    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    FINISH = "finish"
    STOP = "stop"
    FAIL = "fail"


_OPEN = (ReplayState.PREVIEWED, ReplayState.RUNNING, ReplayState.PAUSED)
_RUNNING = (ReplayState.RUNNING,)
_LEADS: Mapping[ReplayAction, tuple[tuple[ReplayState, ...], ReplayState]] = {
    ReplayAction.START: ((ReplayState.PREVIEWED,), ReplayState.RUNNING),
    ReplayAction.PAUSE: (_RUNNING, ReplayState.PAUSED),
    ReplayAction.RESUME: ((ReplayState.PAUSED,), ReplayState.RUNNING),
    ReplayAction.CANCEL: (_OPEN, ReplayState.CANCELLED),
    ReplayAction.FINISH: (_RUNNING, ReplayState.DONE),
    ReplayAction.STOP: (_RUNNING, ReplayState.PAUSED),
    ReplayAction.FAIL: (_RUNNING, ReplayState.FAILED),
}


def after(state: ReplayState, action: ReplayAction) -> ReplayState:
    """The state that an action leads to.

    Args:
        state: the replay's.
        action: what is to be done.

    Raises:
        WrongState: not in this state.
    """
    states, then = _LEADS[action]
    if state in states:
        return then
    possible = [each.value for each in ReplayAction if state in _LEADS[each][0]][:4]
    more = f"possible are: {', '.join(possible)}" if possible else "it has ended; preview a new one"
    raise WrongState(f"it is {state}, and {action} is for one that is {_or(states)}; {more}")


def _or(states: tuple[ReplayState, ...]) -> str:
    return " or ".join(states)
