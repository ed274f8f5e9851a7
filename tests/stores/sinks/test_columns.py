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
