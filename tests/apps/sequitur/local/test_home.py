from pathlib import Path

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
