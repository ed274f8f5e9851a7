"""Units are named by the application, by the system, or by administration."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.units.errors import UnitError
from stores.units.kafka.records import OutgoingMessage
from stores.units.naming import (
    DEFAULT,
    LONGEST_NAME,
    administered,
    checked_name,
    named_at,
    system_name,
    unit_by,
    unit_named,
    unit_per_session,
)

SESSION = system_name(1_000.0, 7)


@given(st.floats(0, 4e9), st.floats(0, 4e9), st.integers(0, 2**80 - 1), st.integers(0, 2**80 - 1))
def test_the_systems_names_are_unique_sort_by_time_and_tell_it(
    one: float, other: float, first: int, second: int
) -> None:
    a, b = system_name(one, first), system_name(other, second)
    assert named_at(checked_name(a)) == pytest.approx(one, abs=0.001)
    assert (a == b) == (int(one * 1000) == int(other * 1000) and first == second)
    if one + 0.001 < other:
        assert a < b


@pytest.mark.parametrize("name", ["session-42", "unit-12-34", "unit-", "unit-" + "z" * 33])
def test_another_name_has_no_time(name: str) -> None:
    assert named_at(name) is None


def test_administration_names_a_unit_for_each_session() -> None:
    assert unit_per_session().name_of({}, SESSION) == SESSION


def test_administration_names_one_unit_for_all() -> None:
    assert unit_named("all").name_of({}, SESSION) == "all"


def test_administration_names_units_by_a_function_of_the_message() -> None:
    default = unit_by(lambda message: message.get("order"))
    assert default.name_of({"order": "A-17"}, SESSION) == "A-17"
    assert default.name_of({}, SESSION) is None
    with pytest.raises(UnitError):
        default.name_of({"order": ""}, SESSION)


def test_administration_says_it_in_a_variable_or_not_at_all() -> None:
    assert administered({}).name_of({}, SESSION) is None
    assert administered({DEFAULT: "session"}).name_of({}, SESSION) == SESSION
    assert administered({DEFAULT: "name:a:b"}).name_of({}, SESSION) == "a:b"
    message = OutgoingMessage(b"", attributes={"order": "A-17"})
    assert administered({DEFAULT: "header:order"}).name_of(message, SESSION) == "A-17"
    assert administered({DEFAULT: "header:other"}).name_of(message, SESSION) is None
    for text in ("session:", "header", "header:", "name:", "all", "\x1b"):
        with pytest.raises(UnitError) as caught:
            administered({DEFAULT: text})
        assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["", "a\nb", "\x1b[2J", "\ud800", "x" * (LONGEST_NAME + 1)])
def test_a_name_that_cannot_be_shown_or_is_too_long_is_refused(name: str) -> None:
    with pytest.raises(UnitError, match="cannot name a unit") as caught:
        unit_named(name)
    assert str(caught.value).isprintable()
