"""Inspectors that are functions of a message: what they find is normalised like any other."""

import uuid
from typing import Any

import pytest

from topology import DeclarationError, Inspected, Malformed, Message, Record, contiguous
from topology.inspectors.inspector import compile_inspector

MESSAGE = Record("orders", 0, 0, None, b"xyz")


def inspect(inspector: Any) -> Any:
    return compile_inspector(inspector)(MESSAGE)


def test_a_function_s_findings_are_normalised() -> None:
    guid = uuid.UUID(int=5)
    found = inspect(lambda message: (guid, "17", b"Paid", message.value))
    assert found == (str(guid), 17, "Paid", b"xyz")


def test_a_function_may_return_an_inspected_without_kind_or_content() -> None:
    assert inspect(lambda message: Inspected(5, "1")) == ("5", 1, None, None)


def test_a_function_that_does_not_know_a_message_returns_none() -> None:
    assert inspect(lambda message: None) is None


class _Unreadable:
    def __str__(self) -> str:
        raise RuntimeError("unreadable")


@pytest.mark.parametrize(
    "result",
    [("a", 1), ("a", None, "k", {}), 5, ("a", 10**6000, "k", {}), ("a", 1, _Unreadable(), 0)],
)
def test_a_function_that_returns_nonsense_makes_the_message_malformed(result: Any) -> None:
    with pytest.raises(Malformed):
        inspect(lambda message: result)


def test_a_kind_that_is_no_unicode_text_makes_the_message_malformed() -> None:
    """Of which no report could be written: it would stop the worker, and each one after it."""
    with pytest.raises(Malformed, match="surrogate"):
        inspect(lambda message: ("a", 1, "\ud800", None))
    assert inspect(lambda message: ("a", 1, "Über", None))[2] == "Über"


def test_a_function_that_fails_makes_the_message_malformed_with_its_error() -> None:
    def failing(message: Message) -> None:
        raise LookupError("no such thing")

    with pytest.raises(Malformed, match="LookupError: no such thing"):
        inspect(failing)


def test_a_function_s_own_reason_is_kept() -> None:
    def picky(message: Message) -> None:
        raise Malformed("it is Sunday")

    with pytest.raises(Malformed, match=r"\Ait is Sunday\Z"):
        inspect(picky)


def test_a_function_written_in_c_or_with_defaults_is_taken() -> None:
    assert inspect(lambda message, separator=",": ("a", 1, None, separator)) == ("a", 1, None, ",")
    compile_inspector(vars)  # type: ignore[arg-type]


async def asynchronous(message: Message) -> None:
    """Has nothing to say."""


class AsynchronousCall:
    async def __call__(self, message: Message) -> None:
        """Has nothing to say."""


@pytest.mark.parametrize(
    ("inspector", "words"),
    [
        (lambda: None, r"cannot be called with one message.*arguments are \(\)"),
        (lambda message, other: None, r"arguments are \(message, other\); give it one"),
        (asynchronous, "it is async.*plain function"),
        (AsynchronousCall(), "it is async.*plain function"),
    ],
)
def test_a_function_that_could_inspect_nothing_fails_at_declaration(
    inspector: Any, words: str
) -> None:
    with pytest.raises(DeclarationError, match=words):
        compile_inspector(inspector)


@pytest.mark.parametrize("inspector", [None, "order.id", 5, contiguous()])
def test_what_is_no_inspector_is_named(inspector: Any) -> None:
    with pytest.raises(DeclarationError, match=r"inspector=.*Inspector\(…\)"):
        compile_inspector(inspector)
