"""Rules that make no sense are refused, with the reason."""

from typing import Any

import pytest

from topology.model.errors import DeclarationError
from topology.ordered_commit import CommitRules, wait_and_commit, wait_and_roll_back


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ({"order": "kind"}, "order='kind': use 'arrival' or 'stream'"),
        ({"start": "newest"}, "start='newest': use 'arrival', 'any' or a function"),
        ({"within_stream": "random"}, "within_stream='random'"),
        ({"batch_of": "many"}, "batch_of='many'"),
        ({"time_limit": 0}, "time_limit=0: must be a number of seconds above 0"),
        ({"time_limit": float("nan")}, "time_limit=nan"),
        ({"backoff": -1.0}, "backoff=-1.0: must be a number of seconds from 0"),
        ({"rollbacks": 0}, "rollbacks=0: must be an int from 1"),
        ({"retries": 1.5}, "retries=1.5"),
        ({"batch": True}, "batch=True"),
        ({"max_events": 0}, "max_events=0"),
        ({"max_bytes": 1 << 50}, "max_bytes="),
        ({"when_older_is_open": "wait"}, "use wait_and_roll_back"),
    ],
)
def test_rules_out_of_range_are_refused(rules: dict[str, Any], reason: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        CommitRules(**rules)
    assert reason in str(refused.value)


@pytest.mark.parametrize("wait", [-1, "10", True, float("inf"), 1e9])
def test_waits_out_of_range_are_refused(wait: Any) -> None:
    with pytest.raises(DeclarationError, match=r"wait_and_roll_back\(wait=.*\): must"):
        wait_and_roll_back(wait)
    with pytest.raises(DeclarationError, match=r"wait_and_commit\(wait=.*\): must"):
        wait_and_commit(wait)


def test_critical_is_a_function() -> None:
    with pytest.raises(DeclarationError, match="must be a function"):
        wait_and_commit(10, "always")  # type: ignore[arg-type]


def test_backoff_doubles_up_to_its_limit() -> None:
    rules = CommitRules(backoff=1.0, backoff_limit=5.0)
    assert [rules.delay(failures) for failures in (1, 2, 3, 4, 1000)] == [1, 2, 4, 5, 5]
