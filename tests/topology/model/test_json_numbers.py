"""NaN and infinities are found wherever orjson writes null for them, and told by their path."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import orjson
import pytest

from topology.model.change_json import OPTIONS
from topology.model.json_numbers import finite, unfinite
from topology.model.unwritable import unwritable

NAN, INF = float("nan"), float("inf")


class Rate(Enum):
    UNKNOWN = NAN
    HALF = 0.5


@dataclass
class Line:
    sku: str
    price: Any


@pytest.mark.parametrize(
    ("value", "where", "number"),
    [
        (NAN, "", "nan"),
        ({"a": {"b": [1, -INF]}}, "a.b[1]", "-inf"),
        ([{"": NAN}], "[0].", "nan"),
        ({"lines": [Line("x", 1.0), Line("y", INF)]}, "lines[1].price", "inf"),
        ({"rate": Rate.UNKNOWN}, "rate", "nan"),
        ({"by": {Rate.HALF: np.float64(NAN)}}, "by.Rate.HALF", "nan"),
        ({"array": np.array([[1.0, NAN]])}, "array[0][1]", "nan"),
        ((1, (2, NAN)), "[1][1]", "nan"),
        ({"line\x1b": NAN}, "line\\x1b", "nan"),
    ],
)
def test_what_would_be_null_is_found(value: Any, where: str, number: str) -> None:
    assert b"null" in orjson.dumps(value, option=OPTIONS)
    assert not finite(value)
    assert unfinite(value) == (where, number)


@pytest.mark.parametrize(
    "value",
    [
        *(None, 1, 1e308, "NaN", True, [], {}, Rate.HALF, Line("x", 0.0)),
        *(np.float32(1), np.array([1, 2]), {"a": [None, {"b": 2**63}]}),
    ],
)
def test_what_is_written_as_it_is_passes(value: Any) -> None:
    assert finite(value)
    assert unfinite(value) is None


def test_what_cannot_be_written_is_told_by_the_same_paths() -> None:
    value = {"lines": [Line("x", {1, 2})]}
    told = unwritable(value, lambda part: orjson.dumps(part, option=OPTIONS))
    assert told.startswith("lines[0].price cannot be written as JSON")
    assert told.endswith("give a list")
