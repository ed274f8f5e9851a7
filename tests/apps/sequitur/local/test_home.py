from pathlib import Path

import pytest

from sequitur.local import home
from sequitur.local.home import LocalError, locked


def test_an_error_says_what_why_and_what_to_do() -> None:
    text = str(LocalError("the thing", "it broke", "mend it"))
    assert text == "the thing: it broke\n  Remedy: mend it"


def test_a_lock_has_one_holder_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "lock"
    with locked(path) as first, locked(path, wait=False) as second:
        assert first
        assert not second
    with locked(path, wait=False) as third:
        assert third


def test_a_checkout_keeps_things_in_itself_and_an_installation_in_the_user_s_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SEQUITUR_HOME", raising=False)
    assert home.home() == home.ROOT / ".sequitur"
    monkeypatch.setattr(home, "IS_CHECKOUT", False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert home.home() == tmp_path / "sequitur"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert home.home() == tmp_path / ".cache" / "sequitur"
    monkeypatch.setenv("SEQUITUR_HOME", str(tmp_path / "named"))
    assert home.home() == tmp_path / "named"
