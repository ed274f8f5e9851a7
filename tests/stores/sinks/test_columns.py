"""What a column makes of a value."""

from typing import Any

import orjson
import pytest

from stores.sinks.columns import JsonObject, Kind, Refused, fit
from stores.sinks.limits import check_nul


@pytest.mark.parametrize("levels", [300, 1_000])
@pytest.mark.parametrize("kind", [str, JsonObject, object, int])
def test_what_is_read_and_nested_too_deep_to_be_written_is_refused(kind: Kind, levels: int) -> None:
    value: dict[str, Any] = orjson.loads(b'{"a":' * levels + b"1" + b"}" * levels)
    with pytest.raises(Refused):
        fit(value, kind)


def test_nul_is_found_however_deep_it_is() -> None:
    value = orjson.loads(b'{"a":[' * 500 + rb'"\u0000"' + b"]}" * 500)
    with pytest.raises(Refused, match="NUL"):
        check_nul("board", "body", value)


@pytest.mark.parametrize("value", [2**53 + 1, -(2**63) + 1, 10**400])
def test_an_int_that_no_float_holds_is_refused(value: int) -> None:
    with pytest.raises(Refused, match="declare the column as int"):
        fit(value, float)
    assert fit(2**63, float) == 2.0**63
