"""A short soak of delivery, as `scripts/soak delivery` does it by the hundred."""

from pathlib import Path

import pytest

from soak_delivery.__main__ import WAYS, fleet, soak
from tests.forked import spawned

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(("way", "harms"), [(WAYS[0], 5), (WAYS[2], 5), (WAYS[3], 4)])
def test_two_databases_agree_after_kills(
    way: str, harms: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soak_delivery.fleet.spawn", spawned)
    with fleet(way, tmp_path, seed=harms) as found:
        done, wrong = soak(found, harms, seed=harms, say=False)
        assert wrong == []
        assert sum(done.values()) == harms
        # There was work all the time, or nothing was tried.
        assert found.messages() > 50
