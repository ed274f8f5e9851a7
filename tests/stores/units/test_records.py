"""The headers of a message say the same to who reads them as to who wrote them, or nothing."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stores.units.kafka.records import LARGEST, OutgoingMessage, read_headers


@given(st.integers(-int(LARGEST), int(LARGEST)) | st.floats(-LARGEST, LARGEST))
@example(10**50)
@example(-LARGEST)
def test_a_sort_key_is_read_as_it_was_sent(sort: float) -> None:
    found = read_headers(OutgoingMessage(b"", sort=sort).headers("u"))
    assert (found.sort, found.damaged) == (float(sort), ())


@pytest.mark.parametrize("sort", [10**309, -(10**400), float("inf"), float("nan")])
def test_a_number_that_no_header_can_hold_is_refused(sort: Any) -> None:
    with pytest.raises(ValueError, match="unit-sort must be a number of at most"):
        OutgoingMessage(b"", sort=sort).headers("u")


@pytest.mark.parametrize("text", [b"1" * 310, b"0." + b"0" * 500 + b"1", b"nan", b"x"])
def test_a_foreign_number_that_is_too_large_or_long_is_passed_by_not_cut(text: bytes) -> None:
    found = read_headers([("unit", b"u"), ("unit-sort", text)])
    assert (found.sort, found.damaged) == (0, ("unit-sort",))
