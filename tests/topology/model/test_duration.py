"""A duration is a number with its unit, and means the same in every command."""

import pytest

from topology.model.duration import seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("500ms", 0.5), ("30s", 30), ("1.5m", 90), ("4h", 14_400), ("30d", 2_592_000)],
)
def test_a_number_and_its_unit(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "30", "0.0", "s", "-1s", "-1", "1e3s", "nan", "nans", "inf", "1 s", "1w", "1S", "1m30s",
     "10001d", "9" * 400 + "s", "٣s", "1s\n"],
)  # fmt: skip
def test_what_has_no_unit_or_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a number and its unit: 500ms, 30s"):
        seconds_of(text)
