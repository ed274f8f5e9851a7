"""The choices a view has, as small values; each policy has a file of its own."""

from typing import Literal

from topology.declaration.policies.error import (
    Advance,
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
    Adaptive,
    Ask,
    Gap,
    Skip,
    Wait,
    adaptive,
    ask,
    skip,
    wait,
)
from topology.declaration.policies.late import (
    LateTopic,
    OnLate,
    RebuildStream,
    late_topic,
    rebuild_stream,
)

__all__ = [
    "Adaptive",
    "Advance",
    "Ask",
    "Full",
    "Gap",
    "Halt",
    "LateTopic",
    "OnError",
    "OnLate",
    "OnUnknown",
    "Park",
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
