"""Several formats on one topic."""

from typing import Any

import orjson
import pytest

from topology import (
    CloudEvents,
    Debezium,
    DeclarationError,
    Inspected,
    Inspector,
    Malformed,
    Record,
    first_of,
)

BOTH = first_of(CloudEvents("subject"), Inspector("order", "n"))


def inspect(body: Any, inspector: Any = BOTH) -> Any:
    return inspector.compile()(Record("t", 0, 0, None, orjson.dumps(body)))


def test_the_first_that_knows_a_message_has_it() -> None:
    event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "Paid"}
    event |= {"subject": "A-17", "sequence": "2"}
    assert inspect(event)[:3] == ("A-17", 2, "Paid")
    assert inspect({"order": "A-17", "n": 1})[:3] == ("A-17", 1, None)


def test_what_one_calls_malformed_is_malformed() -> None:
    with pytest.raises(Malformed, match="no attribute 'id'"):
        inspect({"specversion": "1.0", "order": "A-17", "n": 1})


def test_what_nobody_knows_is_unknown() -> None:
    assert inspect({"a": 1}, first_of(CloudEvents("subject"), Debezium())) is None


def test_it_composes_functions_names_and_itself() -> None:
    inspector = first_of(
        lambda message: None,
        first_of("tests.topology.inspectors.formats:csv"),
    )
    found = inspector.compile()(Record("t", 0, 0, None, b"a,1,Paid"))
    assert found == Inspected("a", 1, "Paid", None)


def test_mistakes_fail_at_declaration() -> None:
    with pytest.raises(DeclarationError, match="at least one"):
        first_of()
    with pytest.raises(DeclarationError, match="inspector=5"):
        first_of(5)  # type: ignore[arg-type]


def test_it_reads_like_its_declaration() -> None:
    def csv(message: object) -> None:
        """Has nothing to say."""

    text = repr(first_of(csv, Inspector("a", "b")))
    assert text == "first_of(csv, Inspector(stream=a, sequence=b))"
