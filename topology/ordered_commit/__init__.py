"""Parallel work, ordered commit: who may begin, whose turn it is, what is rolled back. Pure.

`OrderedCommit` is driven by a runtime: it knows offsets, streams, grants, touched keys, sizes and
times, and never sees a message, a handler or an effect.
"""

from topology.ordered_commit.offset_ranges import OffsetRanges
from topology.ordered_commit.open_work import FailureOutcome
from topology.ordered_commit.ordered_commit import OrderedCommit
from topology.ordered_commit.rules import (
    CommitRules,
    Critical,
    WaitAndCommit,
    WaitAndRollBack,
    WhenOlderIsOpen,
    wait_and_commit,
    wait_and_roll_back,
)
from topology.ordered_commit.values import (
    Actions,
    CommitCounts,
    Grant,
    Key,
    OpenEvent,
    Touched,
)

__all__ = [
    "Actions",
    "CommitCounts",
    "CommitRules",
    "Critical",
    "FailureOutcome",
    "Grant",
    "Key",
    "OffsetRanges",
    "OpenEvent",
    "OrderedCommit",
    "Touched",
    "WaitAndCommit",
    "WaitAndRollBack",
    "WhenOlderIsOpen",
    "wait_and_commit",
    "wait_and_roll_back",
]
