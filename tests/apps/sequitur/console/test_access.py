"""Who may look and who may act, without a browser."""

from pathlib import Path

import pytest

from sequitur.console.access import (
    LASTS,
    SESSIONS,
    TOKEN,
    Access,
    AccessError,
    token_of,
)
from topology.monitoring.same_origin import same_origin

GOOD = "0123456789abcdef"


def test_a_token_is_read_from_the_environment_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{GOOD}\n")
    assert token_of(file, {}) == GOOD
    assert token_of(None, {TOKEN: GOOD}) == GOOD
    assert token_of(None, {}) is None


@pytest.mark.parametrize("text", ["short", "a" * 15, "é" * 20, "a" * 20 + "\nb"])
def test_a_poor_token_is_refused_and_not_repeated(text: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    with pytest.raises(AccessError) as refused:
        token_of(file, {})
    assert text not in str(refused.value)


def test_an_empty_file_is_no_way_to_have_no_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch()
    with pytest.raises(AccessError):
        token_of(file, {})


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "console.example"])
def test_others_cannot_read_without_a_token(host: str) -> None:
    with pytest.raises(AccessError, match="could read"):
        Access(host, None)
    assert not Access(host, GOOD).local


def test_only_the_token_opens_a_session_that_ends() -> None:
    now = [0.0]
    access = Access("127.0.0.1", GOOD, lambda: now[0])
    assert access.enter("0123456789abcdeF", "eve") is None
    assert access.enter("", "eve") is None
    assert access.enter("é\ud800", "eve") is None
    secret = access.enter(GOOD, " ann\u202e\n ")
    session = access.session(secret)
    assert session is not None
    assert session.who == "ann\\u202e"
    assert access.session("another") is None
    assert access.session(None) is None
    now[0] = LASTS
    assert access.session(secret) is None


def test_without_a_token_nothing_opens() -> None:
    assert Access("127.0.0.1", None).enter("", "eve") is None


def test_sessions_are_bounded_and_can_be_left() -> None:
    access = Access("127.0.0.1", GOOD)
    secrets = [access.enter(GOOD, "ann") for _ in range(SESSIONS + 1)]
    assert access.session(secrets[0]) is None
    assert access.session(secrets[-1]) is not None
    access.leave(secrets[-1])
    assert access.session(secrets[-1]) is None


@pytest.mark.parametrize(
    ("host", "origin", "local", "good"),
    [
        ("127.0.0.1:7090", None, True, True),
        ("127.0.0.1:7090", "http://127.0.0.1:7090", True, True),
        ("localhost:9000", "http://localhost:9000", True, True),
        ("[::1]:7090", "http://[::1]:7090", True, True),
        ("127.0.0.1:7090", "http://127.0.0.1:8000", True, False),
        ("127.0.0.1:7090", "http://evil.example", True, False),
        ("127.0.0.1:7090", "null", True, False),
        ("evil.example:7090", "http://evil.example:7090", True, False),
        ("", None, True, False),
        ("[", None, True, False),
        ("ops.example", "https://ops.example", False, True),
        ("ops.example", "https://evil.example", False, False),
    ],
)
def test_requests_come_from_the_console(
    host: str, origin: str | None, local: bool, good: bool
) -> None:
    assert (same_origin(host, origin, local=local) is None) is good
