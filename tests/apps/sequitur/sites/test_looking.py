"""What the commands say of sites that are not alike."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sequitur.cli.main import main
from sequitur.sites import on_file
from sequitur.sites.config import SitesFile
from stores.sites import Site, SiteError
from stores.sites.site import Extent


class _Site(Site):
    """partitions: topic → how many it has."""

    def __init__(self, name: str, partitions: dict[str, int]) -> None:
        super().__init__(name, {})
        object.__setattr__(self, "has", partitions)

    has: dict[str, int]

    async def identify(self) -> str:
        return f"id-{self.name}"

    async def rows(self, topic: str) -> dict[tuple[str | int, ...], Any]:
        return {}

    async def partitions(self, topic: str) -> int:
        if topic not in self.has:
            raise SiteError(f"site {self.name} has no topic {topic}; make it there")
        return self.has[topic]

    async def extents(self, topic: str) -> dict[int, Extent]:
        return {number: Extent(0, 0) for number in range(await self.partitions(topic))}

    async def topic_id(self, topic: str) -> str | None:
        return None

    async def records(self, *_: Any) -> AsyncIterator[Any]:
        return
        yield


@pytest.mark.parametrize("command", ["lag", "gaps", "status"])
@pytest.mark.parametrize("own", ["newark", "kennedy"])
def test_a_topic_that_is_missing_or_has_other_partitions_stands_still(
    command: str,
    own: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = {"newark": {"a": 2, "b": 1}, "kennedy": {"a": 2, "b": 1}}
    sites = {name: _Site(name, has) for name, has in given.items()}
    found = SitesFile(own, sites, ("a", "b"))
    monkeypatch.setattr(on_file, "load_sites", lambda _: found)
    file = tmp_path / "own.toml"
    file.touch()

    def said(status: int) -> str:
        assert main(["sites", command, str(file)]) == status
        return capsys.readouterr().out

    assert "stands still" not in said(0)
    given["kennedy"]["a"] = 3
    other = "kennedy" if own == "newark" else "newark"
    here, there = given[own]["a"], given[other]["a"]
    text = said(1)
    assert f"a/1 of {own} stands still towards {other}: a has {here} partitions here and" in text
    assert f"{there} at site {other}: keys would be elsewhere; give it as many" in text
    del given["kennedy"]["a"]
    text = said(1)
    assert "site kennedy has no topic a; make it there" in text
    if own == "newark" or command != "lag":
        assert "a/1 of newark stands still towards kennedy: site kennedy has no topic a" in text
    given["newark"].clear()
    assert "site newark has no topic b" in said(1)
