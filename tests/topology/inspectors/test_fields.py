"""Fields: paths into the body, the record's key, headers."""

import pytest

from topology import DeclarationError, Malformed, Message, Record, header, key
from topology.inspectors.fields import getter, path_steps

MESSAGE: Message = Record("t", 0, 0, b"k", b"{}", (("id", b"old"), ("id", b"new"), ("n", b"1")))


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("id", ("id",)),
        ("order.id", ("order", "id")),
        ("order.lines[0].id", ("order", "lines", 0, "id")),
        ("grid[2][10]", ("grid", 2, 10)),
        ("@type.x-y", ("@type", "x-y")),
        ("größe", ("größe",)),
        ("0", ("0",)),
    ],
)
def test_a_path_s_steps(path: str, steps: tuple[str | int, ...]) -> None:
    assert path_steps(path) == steps


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "a.",
        ".a",
        "a..b",
        "[0]",
        "a.[0]",
        "a[",
        "a]",
        "a[x]",
        "a[-1]",
        "a[]",
        " a",
        "a[0]b",
    ],
)
def test_a_bad_path_is_named_with_the_right_form(path: str) -> None:
    with pytest.raises(DeclarationError) as error:
        path_steps(path)
    assert repr(path) in str(error.value)
    assert "order.lines[0].id" in str(error.value)


def test_a_path_is_followed_through_objects_and_lists() -> None:
    body = {"order": {"lines": [{"id": 5}, {"id": 6}]}}
    assert getter("order.lines[1].id", "stream")(body, MESSAGE) == 6


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"a": None},
        {"a": 5},
        {"a": "text"},
        {"a": True},
        {"a": []},
        {"a": [1]},
        {"a": {"1": 5}},
        [],
        None,
        "text",
        5,
        2.5,
        True,
    ],
)
@pytest.mark.parametrize("path", ["a[1]", "a.b", "missing"])
def test_a_missing_field_is_a_malformed_message_that_names_its_role(
    path: str, body: object
) -> None:
    with pytest.raises(Malformed, match="the sequence is missing"):
        getter(path, "sequence")(body, MESSAGE)


def test_key_and_header_look_at_the_record() -> None:
    assert getter(key(), "stream")({}, MESSAGE) == b"k"
    assert getter(header("n"), "stream")({}, MESSAGE) == b"1"


def test_of_headers_with_one_name_the_last_counts() -> None:
    assert getter(header("id"), "stream")({}, MESSAGE) == b"new"


def test_a_missing_header_is_named() -> None:
    with pytest.raises(Malformed, match="the kind is missing: no header 'type'"):
        getter(header("type"), "kind")({}, MESSAGE)


def test_a_header_needs_a_name() -> None:
    with pytest.raises(DeclarationError, match="header"):
        header("")


@pytest.mark.parametrize("field", [None, 5, b"id", ["id"]])
def test_what_is_no_field_is_a_mistake_that_names_the_role(field: object) -> None:
    with pytest.raises(DeclarationError, match=r"sequence=.*give a field path"):
        getter(field, "sequence")  # type: ignore[arg-type]
