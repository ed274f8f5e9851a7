"""Units are named by the application, by the system, or by administration."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.units.errors import UnitError
from stores.units.naming import (
    LONGEST_NAME,
    ProducerUnit,
    checked_name,
    named_at,
    system_name,
    unit_by,
    unit_named,
    unit_per_session,
)

SESSION = system_name(1_000.0, 7)


def test_the_application_names_a_unit() -> None:
    producer = ProducerUnit(SESSION)
    assert producer.enter("session-42") == "session-42"
    assert producer.name_of({}) == "session-42"


def test_a_producer_stays_in_its_unit_until_it_leaves() -> None:
    producer = ProducerUnit(SESSION)
    assert producer.name_of({}) is None
    producer.enter("a")
    assert [producer.name_of({}), producer.name_of({})] == ["a", "a"]
    producer.enter("b")
    assert producer.name_of({}) == "b"
    producer.leave()
    assert producer.name_of({}) is None


def test_the_systems_name_is_one_that_others_can_join() -> None:
    first, second = ProducerUnit(SESSION), ProducerUnit(system_name(2_000.0, 8))
    name = first.enter()
    assert second.enter(name) == name == second.name_of({})


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
    assert ProducerUnit(SESSION, unit_per_session()).name_of({}) == SESSION


def test_administration_names_one_unit_for_all() -> None:
    assert ProducerUnit(SESSION, unit_named("all")).name_of({}) == "all"


def test_administration_names_units_by_a_function_of_the_message() -> None:
    producer = ProducerUnit(SESSION, unit_by(lambda message: message.get("order")))
    assert producer.name_of({"order": "A-17"}) == "A-17"
    assert producer.name_of({}) is None
    producer.enter("own")
    assert producer.name_of({"order": "A-17"}) == "own"
    producer.leave()
    with pytest.raises(UnitError):
        producer.name_of({"order": ""})


@pytest.mark.parametrize("name", ["", "a\nb", "\x1b[2J", "\ud800", "x" * (LONGEST_NAME + 1)])
def test_a_name_that_cannot_be_shown_or_is_too_long_is_refused(name: str) -> None:
    with pytest.raises(UnitError, match="cannot name a unit") as caught:
        unit_named(name)
    assert str(caught.value).isprintable()
