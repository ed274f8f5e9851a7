"""What tests of workers share."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sequitur.local.ports import HOST
from soak.chaos import Soak
from tests.conftest import BrokerAddress


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address where nothing listens, and where no other test can while this one runs."""
    with socket.socket() as held:
        held.bind((HOST, 0))
        yield f"{HOST}:{held.getsockname()[1]}"


@pytest.fixture
def soaks(
    broker: BrokerAddress, unique: Callable[[str], str], tmp_path: Path
) -> Iterator[Callable[..., Soak]]:
    """(guarantee=…, store=…) → a soak on the run's broker; what still runs at the end is killed."""
    made: list[Soak] = []

    def make(**options: Any) -> Soak:
        made.append(Soak(broker.address, unique("soak"), tmp_path, **options))
        return made[-1]

    yield make
    for soak in made:
        soak.close()
