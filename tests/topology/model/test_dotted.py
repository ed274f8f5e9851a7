"""Objects by 'module:name': an error names what is wrong, and what was meant."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from topology import DeclarationError, Topology
from topology.model.dotted import find

MODULES = {
    "zshop.py": "from topology import Topology\nshop = Topology('shop')\nother = 3\n",
    "zpack/__init__.py": "",
    "zpack/topology.py": "from topology import Topology\ntopology = Topology('packed')\n",
    "zbroken.py": "x = 1\ny = {}['k']\n",
    "zneeds.py": "import zmissing.deep\n",
    "zredis.py": "import redis.nothing_like_it\n",
    "zlong.py": "import pydantic\nclass M(pydantic.BaseModel):\n    n: int\nM(n='x')\n",
    "zparsed.py": "import json\njson.loads('{')\n",
    "zwrong.py": "from topology import Topology\nTopology(None)\n",
}


@pytest.fixture(autouse=True)
def _modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, text in MODULES.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in [name for name in sys.modules if name.startswith("z")]:
        if name.partition(".")[0] in {Path(file).parts[0].removesuffix(".py") for file in MODULES}:
            del sys.modules[name]


def _find(place: str) -> Any:
    return find("topology", place, "topology", lambda one: isinstance(one, Topology))


@pytest.mark.parametrize(
    ("place", "name"),
    [("zshop:shop", "shop"), ("zpack:topology", "packed"), ("zpack.topology", "packed")],
)
def test_it_is_found(place: str, name: str) -> None:
    assert _find(place).name == name


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("zshop:shpo", ["has no 'shpo'", "did you mean 'shop'?", "it has zshop:shop"]),
        ("zshpo:shop", ["no module 'zshpo'", "'zshop'"]),
        ("zshop", ["has no 'topology'", "it has zshop:shop"]),
        ("zshop:other", ["of type int", "it has zshop:shop"]),
        ("zpack:topolgy", ["has no 'topolgy'", "did you mean 'topology'?"]),
        ("zpack.topolgy", ["no module 'zpack.topolgy'", "did you mean 'topology'?"]),
        ("zbroken:x", ["KeyError: 'k'", "zbroken.py line 2"]),
        ("zneeds:x", ["it needs 'zmissing'", "zneeds.py line 1"]),
        ("zwrong:x", ["zwrong.py line 2"]),
        ("zlong:x", ["validation error for M n Input should be", "zlong.py line 4"]),
        ("zparsed:x", ["zparsed.py line 2"]),
        ("", ["write MODULE:NAME"]),
        ("zshop:", ["has no 'topology'"]),
        ("a b:c", ["write MODULE:NAME"]),
        ("zshop:shop.x", ["write MODULE:NAME"]),
    ],
)
def test_what_is_not_there_is_named_with_what_was_meant(place: str, says: list[str]) -> None:
    with pytest.raises(DeclarationError) as refused:
        _find(place)
    for each in [f"topology {place!r}", *says]:
        assert each in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_package_of_an_extra_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(
        DeclarationError, match=r"it needs 'redis.*pip install 'sequitur\[redis\]==.+'"
    ):
        _find("zredis:x")
