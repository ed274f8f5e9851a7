"""Transactions of several databases: committed in all of them, or in none."""

from stores.two_phase.coordinator import Coordinator, OutcomeUnknown
from stores.two_phase.decision_log import TwoPhaseError
from stores.two_phase.recovery import Recovery

__all__ = [
    "Coordinator",
    "OutcomeUnknown",
    "Recovery",
    "TwoPhaseError",
]
