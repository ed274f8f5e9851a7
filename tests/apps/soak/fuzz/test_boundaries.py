"""Whatever bytes come in, at whatever boundary: the process goes on, the input is in one place.

Each boundary for a second's worth of inputs; `scripts/soak fuzz` runs them for minutes.
"""

from typing import Any

import pytest
from hypothesis import given

from soak.fuzz import Boundary
from soak.fuzz.__main__ import boundaries

SERVERS = {"output-records-postgresql"}
"""Boundaries that start a server."""


def parameters() -> list[Any]:
    return [
        pytest.param(
            boundary,
            id=boundary.name,
            marks=[pytest.mark.integration] if boundary.name in SERVERS else [],
        )
        for boundary in boundaries()
    ]


@pytest.mark.parametrize("boundary", parameters())
def test_no_input_stops_work_and_each_is_in_one_counted_place(boundary: Boundary[Any]) -> None:
    @given(boundary.strategy())
    def attack(input: Any) -> None:
        boundary.run(input)

    attack()
