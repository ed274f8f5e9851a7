"""The choices a view has, as small values; each policy has a file of its own."""

from typing import Literal

from topology.declaration.policies.error import (
    Advance,
    ErrorPolicy,
    Failing,
    Halt,
    OnError,
    Park,
    Retry,
    advance,
    halt,
    park,
    retry,
)
from topology.declaration.policies.full import Full, Redeliver, Spill, redeliver, spill
from topology.declaration.policies.gap import (
    Ask,
    Gap,
    Skip,
    Wait,
    ask,
    skip,
    wait,
)
from topology.declaration.policies.gap_time import Adaptive, GapTime, Latenesses, adaptive
from topology.declaration.policies.late import (
    LateTopic,
    OnLate,
    RebuildStream,
    late_topic,
    rebuild_stream,
)
from topology.declaration.policies.policy import Policy

__all__ = [
    "Adaptive",
    "Advance",
    "Ask",
    "ErrorPolicy",
    "Failing",
    "Full",
    "Gap",
    "GapTime",
    "Halt",
    "LateTopic",
    "Latenesses",
    "OnError",
    "OnLate",
    "OnUnknown",
    "Park",
    "Policy",
    "RebuildStream",
    "Redeliver",
    "Retry",
    "Skip",
    "Spill",
    "Wait",
    "adaptive",
    "advance",
    "ask",
    "halt",
    "late_topic",
    "park",
    "rebuild_stream",
    "redeliver",
    "retry",
    "skip",
    "spill",
    "wait",
]


OnUnknown = Literal["pass", "topic"]
