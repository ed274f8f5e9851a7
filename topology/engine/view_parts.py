"""What a view's task consists of, for those who take one part of its work over."""

from typing import Protocol

from topology.declaration.view import View
from topology.engine.commit_unit import CommitUnit
from topology.engine.redelivery.records import ForeignRecords
from topology.engine.redelivery.redriven_events import RedrivenEvents
from topology.engine.resend_requests import ResendRequests
from topology.engine.state.closed_streams import ClosedStreams
from topology.engine.state.late_events import LateEvents
from topology.engine.state.view_state import ViewState


class ViewParts(Protocol):
    """The parts of a ViewTask; see there.

    moved: streams that moved while events of the view are away. foreign: records of the redelivery
    topic that are no events, for the step in hand. horizon: a time by which all that had arrived
    was read, as the step in hand was told (ms).
    """

    view: View
    state: ViewState
    late_events: LateEvents
    closed_streams: ClosedStreams
    redriven: RedrivenEvents
    resend_requests: ResendRequests | None
    moved: set[str]
    foreign: ForeignRecords
    horizon: int | None

    def halt(self, reason: str, unit: CommitUnit) -> None:
        """Take no more steps."""
        ...
