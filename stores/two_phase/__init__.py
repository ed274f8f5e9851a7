"""Transactions of several databases: committed in all of them, or in none."""

from stores.two_phase.coordinator import Coordinator
from stores.two_phase.decision_log import TwoPhaseError
from stores.two_phase.recovery import Recovery
from stores.two_phase.running_transaction import OutcomeUnknown

__all__ = [
    "Coordinator",
    "OutcomeUnknown",
    "Recovery",
    "TwoPhaseError",
]
