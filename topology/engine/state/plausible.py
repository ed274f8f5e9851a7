"""Stored times as far as they are plausible: the clock that wrote them may not be the one that is.

Clocks are set, and those of two machines differ. What was noted by another one is bounded, so that
nothing waits for a time that is hours away by mistake: what began in the future begins now, and
what is due is due at the latest when it would be if it were noted now.
"""

from topology.declaration.policies import OnError
from topology.declaration.policies import Retry as RetryPolicy
from topology.declaration.policies.error import BACKOFF_LIMIT, Failing
from topology.sequencer.progress import PendingRetry, Progress

ALWAYS = 1 << 62
"""A clock that finds all times plausible."""


def bound(progress: Progress, now: int, error: OnError) -> bool:
    """Bound the times of a stream that waits. Returns whether one was not plausible.

    now: the clock (ms). error: the view's policy, which says how long a retry may be away.
    """
    changed = progress.since > now or progress.rejected > now
    progress.since, progress.rejected = min(progress.since, now), min(progress.rejected, now)
    retry = progress.retry
    if retry is not None and retry.due > (latest := now + longest(error, retry)):
        progress.retry, changed = retry._replace(due=latest), True
    return changed


def longest(error: OnError, retry: PendingRetry) -> int:
    """How long a retry may be away (ms)."""
    if isinstance(error, RetryPolicy):
        return max(1, round(error.delay(retry.attempts) * 1000))
    # What a policy of one's own has said only the retry knows.
    return 0 if isinstance(error, Failing) else retry.delay or round(BACKOFF_LIMIT * 1000)
