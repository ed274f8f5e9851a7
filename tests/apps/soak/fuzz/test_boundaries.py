"""Whatever bytes come in, at whatever boundary: the process goes on, the input is in one place.

Each boundary for a second's worth of inputs; `scripts/soak fuzz` runs them for minutes.
"""

from typing import Any

import pytest
from hypothesis import given

from soak.fuzz import Boundary
from soak.fuzz.__main__ import boundaries

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("boundary", list(boundaries()), ids=lambda boundary: str(boundary.name))
def test_no_input_stops_work_and_each_is_in_one_counted_place(boundary: Boundary[Any]) -> None:
    @given(boundary.strategy())
    def attack(input: Any) -> None:
        boundary.run(input)

    attack()
