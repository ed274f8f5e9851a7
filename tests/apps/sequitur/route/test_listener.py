"""A listener carries out what it registered, once, and nothing that a message brings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sequitur.alerts.actions import Actions
from sequitur.route.control import Control
from sequitur.route.listen_command import read_listener
from sequitur.route.listener import Listener
from stores.db.engines import open_engine
from topology import DeclarationError, Record
from topology.routing import ACTION, BROADCAST

FILE = """
name = "ear"
destination = "left"
[action.mark]
function = "marks:mark"
"""


def made(folder: Path) -> Listener:
    file = folder / "ear.toml"
    file.write_text(FILE)
    said = read_listener(file)
    engine = open_engine(f"sqlite:///{folder / 'done.db'}")
    return Listener(said.endpoint, "t", Control("c", {}), Actions(dict(said.action)), engine)


def record(headers: Sequence[tuple[str, bytes]]) -> Record:
    return Record("t", 0, 7, b"k", b"content", tuple(headers))


RULES = ("sequitur-rules", b"1")
SENT = [RULES, (BROADCAST, b"a/b/in/0/1"), (ACTION, b"mark")]


async def test_an_action_runs_once_for_a_broadcast_also_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "marks.py").write_text("import builtins\ndef mark(told):\n    SEEN.append(told)\n")
    monkeypatch.syspath_prepend(tmp_path)
    seen: list[Any] = []
    import marks  # type: ignore[import-not-found]

    monkeypatch.setattr(marks, "SEEN", seen, raising=False)
    for _ in range(2):
        listener = made(tmp_path)
        await listener._take(record(SENT))
        await listener._take(record([(ACTION, b"mark"), *SENT[:2]]))  # forged
        await listener._take(record([*SENT[1:], RULES]))  # a routed message that was one
        await listener._take(record([*SENT[:2], (ACTION, b"rm -rf /")]))
    assert listener.counts == {"repeated": 1, "unknown": 1}
    (told,) = seen
    assert (told["broadcast"], told["value"], told["offset"]) == ("a/b/in/0/1", "content", 7)


@pytest.mark.parametrize(
    "wrong",
    [
        FILE.replace("marks:mark", "no_such_module:f"),
        FILE.replace("function", "shell"),
        FILE.replace("mark]", '"a b"]'),
        'destination = "left"',
    ],
)
def test_a_file_that_means_nothing_is_refused(wrong: str, tmp_path: Path) -> None:
    file = tmp_path / "ear.toml"
    file.write_text(wrong)
    with pytest.raises(DeclarationError):
        read_listener(file)
