"""The bench of ordering: its bound, and that it sees outputs that are wrong."""

from typing import Any

import pytest

from bench.ordering.run import check
from bench.ordering.work import CONCURRENCY, Row, least


class Out:
    """An output record."""

    def __init__(self, key: bytes | None, offset: int) -> None:
        self._key, self._value = key, b"%d 1.0 7" % offset

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes:
        return self._value


def test_the_bound_is_the_work_over_the_workers_or_that_of_the_busiest_key() -> None:
    spread = [(b"%d" % number, 1_000) for number in range(10 * CONCURRENCY)]
    assert least(spread) == pytest.approx(0.01)
    assert least([*spread, (b"0", 500_000)]) == pytest.approx(0.501)
    assert least([(None, 500_000)] * CONCURRENCY) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("commit", "offsets", "wrong"),
    [
        ("stream", [0, 1, 2, 3], ""),
        ("stream", [1, 0, 3, 2], ""),
        ("arrival", [1, 0, 3, 2], "not in the order of arrival"),
        ("stream", [2, 1, 0, 3], "not in its order"),
        ("stream", [0, 1, 2], "3 outputs of 3 events"),
        ("stream", [0, 1, 2, 3, 3], "5 outputs of 4 events"),
    ],
)
def test_outputs_that_are_lost_doubled_or_out_of_order_are_seen(
    commit: str, offsets: list[int], wrong: str
) -> None:
    messages = [(b"even" if number % 2 == 0 else b"odd", b"1") for number in range(4)]
    records: Any = [Out(messages[offset][0], offset) for offset in offsets]
    found = check(Row("row", 2, commit), list(messages), records)
    assert [line for line in found if wrong in line] if wrong else not found
