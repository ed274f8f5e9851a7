"""The file of a site: what is wrong in it is said."""

from pathlib import Path

import pytest

from sequitur.cli.main import main
from sequitur.sites.config import load_sites
from topology.model.errors import DeclarationError

GOOD = """
own = "newark"
topics = ["movements", "movements"]
[site.newark]
broker = "127.0.0.1:1"
[site.kennedy]
broker = "127.0.0.1:2"
cluster = "abc"
properties = "kennedy.properties"
"""


def written(folder: Path, text: str) -> Path:
    (folder / "kennedy.properties").write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.username=u\nsasl.password=s3"
    )
    file = folder / "sites.toml"
    file.write_text(text)
    return file


def test_a_file_names_this_site_and_the_others(tmp_path: Path) -> None:
    found = load_sites(written(tmp_path, GOOD))
    assert found.here.kafka == {"bootstrap_servers": "127.0.0.1:1"}
    assert found.topics == ("movements",)
    (kennedy,) = found.others("newark")
    assert kennedy.cluster == "abc"
    assert kennedy.kafka["security_protocol"] == "SASL_PLAINTEXT"
    assert "s3" not in repr(kennedy)
    with pytest.raises(DeclarationError, match="did you mean 'kennedy'"):
        found.named("kenedy")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('own = "newark"', 'own = "kenedy"', "give one of newark, kennedy"),
        ("[site.kennedy]", "[sites.kennedy]", "unknown 'sites'"),
        ('topics = ["movements", "movements"]', 'topics = "movements"', "give a list"),
        ('broker = "127.0.0.1:1"', "broker = 1", "all values are texts"),
        ('cluster = "abc"', 'custer = "abc"', "did you mean 'cluster'"),
        ('[site.newark]\nbroker = "127.0.0.1:1"', "", "give one of kennedy"),
        ('own = "newark"', "own = ", "Invalid value"),
    ],
)
def test_a_mistake_in_it_is_named(
    old: str, new: str, said: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = written(tmp_path, GOOD.replace(old, new))
    if "kennedy" in said and not new:
        said = "for each site, this one too"
    with pytest.raises(DeclarationError, match=said):
        load_sites(file)
    assert main(["sites", "lag", str(file)]) == 2


def test_a_site_that_does_not_answer_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, GOOD.replace('properties = "kennedy.properties"', ""))
    assert main(["sites", "gaps", str(file)]) == 1
    assert "newark does not answer" in capsys.readouterr().out
    words = ["takeover", str(file), "newark", "--epoch=1", "--reason=why"]
    assert main(["sites", *words]) == 2
    assert main(["sites", "forward", str(file), "--peer", "newark"]) == 2
