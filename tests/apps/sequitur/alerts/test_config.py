"""The file of `sequitur alerts`: what is wrong in it is named."""

from pathlib import Path

import pytest

from sequitur.alerts.actions import Actions
from sequitur.alerts.config import read_config
from sequitur.cli.main import main
from topology.model.errors import DeclarationError

GOOD = """
topics = ["shop.errors", "shop.parked"]

[[pattern]]
name = "the bank refuses"
topics = ["shop.errors"]
where = { exception = "Refused" }
same = ["view", "stack"]
count = 10
within = "5m"
quiet = "1h"
actions = ["mail"]

[action.mail]
smtp = "127.0.0.1:25"
security = "none"
from = "shop@example.org"
to = ["ops@example.org"]
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "alerts.toml"
    path.write_text(text)
    return path


def test_a_file_is_patterns_and_actions(tmp_path: Path) -> None:
    (pattern,) = read_config(write(tmp_path, GOOD)).patterns
    assert (pattern.count, pattern.within, pattern.quiet) == (10, 300, 3600)
    assert pattern.topics == {"shop.errors"}
    assert pattern.actions == ("mail",)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("count = 10", "count = 0", "pattern.0.count"),
        ('"127.0.0.1:25"', '"127.0.0.1"', "smtp is host:port, such as"),
        ('"5m"', '"soon"', "pattern.0.within: .*write a number and its unit"),
        *(('"5m"', wrong, "pattern.0.within: Input should be") for wrong in ("0", "-1", "nan")),
        *(('"1h"', wrong, "pattern.0.quiet: Input should be") for wrong in ("inf", "-1")),
        ('["mail"]', '["mial"]', "did you mean 'mail'"),
        ('topics = ["shop.errors"]', 'topics = ["other"]', "not among the file's topics"),
        ('smtp = "127.0.0.1:25"', "", "one of smtp, webhook, command and function"),
        ('to = ["ops@example.org"]', "", "needs from and to"),
        ("same", "sane", "pattern.0.sane"),
        ("topics = [", "topics = [[", "no TOML"),
        ('"shop.parked"', '"no topic"', "A–Z"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, reason: str) -> None:
    assert old in GOOD
    path = write(tmp_path, GOOD.replace(old, new, 1))
    if old.startswith("topics = [") and new.startswith("topics = ["):
        path.write_text(new.join(GOOD.rsplit(old, 1)))
    with pytest.raises(DeclarationError, match=reason):
        read_config(path)


def test_the_command_checks_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["alerts", str(write(tmp_path, GOOD)), "--check"]) == 0
    assert "1 pattern over shop.errors, shop.parked" in capsys.readouterr().out
    assert main(["alerts", str(write(tmp_path, "topics = []")), "--check"]) == 2
    assert main(["alerts", str(tmp_path / "none.toml"), "--check"]) == 2


def test_a_secret_that_is_not_set_is_told_at_once(tmp_path: Path) -> None:
    config = read_config(write(tmp_path, GOOD + 'user = "u"\npassword = "NO_SUCH_VARIABLE"\n'))
    with pytest.raises(DeclarationError, match="NO_SUCH_VARIABLE is not set"):
        Actions(config.action)


def test_the_page_s_file_is_right(tmp_path: Path) -> None:
    page = (Path(__file__).parents[4] / "docs/alerts.md").read_text()
    text = page.partition("```toml\n")[2].partition("```")[0]
    assert len(read_config(write(tmp_path, text)).patterns) == 2
