from collections.abc import Callable

import pandas as pd
import pytest

from sequitur.flights.movements import movements, source_table


@pytest.fixture(scope="session")
def flights() -> pd.DataFrame:
    """The source table; tests do not change it."""
    return source_table()


@pytest.fixture(scope="session")
def moves_of(flights: pd.DataFrame) -> Callable[[int], pd.DataFrame]:
    """n → the first n movements."""
    everything = movements(flights)
    return lambda count: everything.head(count)
