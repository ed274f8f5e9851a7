"""The file of `audit --compare`: what is wrong with it is said before an audit begins."""

from pathlib import Path

import pytest

from topology.faust.cli.audit import _read


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"{", "unexpected end of data"), (b"[]", "this is no saved audit"), (b"\xff", "")],
)
def test_a_file_that_no_audit_has_saved_is_named(content: bytes, why: str, tmp_path: Path) -> None:
    path = tmp_path / "before.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"before.json: .*{why}"):
        _read(str(path))


def test_what_an_audit_has_saved_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "before.json"
    path.write_bytes(b'{"topology":"shop","views":{"board":{"a":[1,1,"00"]}}}')
    assert _read(str(path))["views"]["board"]["a"] == [1, 1, "00"]
