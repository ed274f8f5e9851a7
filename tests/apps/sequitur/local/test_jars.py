from hashlib import sha256
from pathlib import Path
from xml.etree import ElementTree

import pytest

from sequitur.local import jars
from sequitur.local.home import LocalError


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> jars.Bundle:
    """A bundle `b` of the pinned jars one.jar and two.jar, whose contents are their names."""
    pins = tmp_path / "pins"
    lines = [
        f"{sha256(name).hexdigest()}  b/{name.decode()}\n" for name in (b"one.jar", b"two.jar")
    ]
    pins.write_text("".join(lines) + f"{'0' * 64}  other/one.jar\n")
    monkeypatch.setattr(jars, "PINS", pins)
    monkeypatch.setattr(jars, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(jars, "HOME", tmp_path)
    return jars.Bundle("b", ("org.example:b:1",), transitive=True)


def put(folder: Path, **contents: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / f"{name}.jar").write_bytes(content)
    return folder


def test_every_jar_is_pinned() -> None:
    assert len(jars.BROKER.pins()) == 46
    assert len(jars.CONNECTOR.pins()) == len(jars.CONNECTOR.coordinates) == 5
    assert len(jars.DELTA.pins()) == len(jars.DELTA.coordinates) == 2
    for bundle in jars.BUNDLES:
        for coordinate in bundle.coordinates:
            _, module, revision = coordinate.split(":")
            assert f"{module}-{revision}.jar" in bundle.pins()


def test_only_pinned_jars_with_the_pinned_content_pass(bundle: jars.Bundle, tmp_path: Path) -> None:
    place = put(tmp_path / "place", one=b"one.jar", two=b"two.jar")
    assert jars.mismatches(bundle, place) == []
    put(place, two=b"altered", three=b"not pinned")
    (place / "one.jar").unlink()
    assert jars.mismatches(bundle, place) == ["one.jar", "three.jar", "two.jar"]


def test_a_half_made_folder_is_not_taken_for_done(bundle: jars.Bundle, tmp_path: Path) -> None:
    put(tmp_path / "b", one=b"one.jar")
    assert not jars.installed(bundle, tmp_path)
    with pytest.raises(LocalError, match=r"jars of b: not installed\n.*scripts/setup"):
        jars.folder(bundle, tmp_path)


def test_install_replaces_a_half_made_folder_and_fetches_once(
    bundle: jars.Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = []

    def retrieve(bundle: jars.Bundle, cache: Path, target: Path) -> None:
        fetched.append(bundle.name)
        put(target, one=b"one.jar", two=b"two.jar")

    monkeypatch.setattr(jars, "_retrieve", retrieve)
    put(tmp_path / "jars" / "b", one=b"half", three=b"of another version")
    for _ in range(2):
        jars.install(bundle, tmp_path / "jars")
    assert fetched == ["b"]
    assert jars.mismatches(bundle, jars.folder(bundle, tmp_path / "jars")) == []
    assert not list((tmp_path / "jars").glob("*.partial-*"))


def test_install_refuses_altered_jars_and_forgets_them(
    bundle: jars.Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def retrieve(bundle: jars.Bundle, cache: Path, target: Path) -> None:
        put(cache, one=b"altered")
        put(target, one=b"altered", two=b"two.jar")

    monkeypatch.setattr(jars, "_retrieve", retrieve)
    with pytest.raises(LocalError, match=r"jars of b: not the pinned files: one\.jar"):
        jars.install(bundle, tmp_path / "jars")
    assert not jars.installed(bundle, tmp_path / "jars")
    assert not (tmp_path / "cache" / "ivy").exists()


def test_ivy_is_told_what_to_fetch() -> None:
    dependencies = ElementTree.fromstring(jars.CONNECTOR.ivy_file()).findall(".//dependency")
    assert [dependency.get("transitive") for dependency in dependencies] == ["false"] * 5
    assert dependencies[0].attrib == {
        "org": "org.apache.spark",
        "name": "spark-sql-kafka-0-10_2.13",
        "rev": "4.2.0",
        "transitive": "false",
    }


def test_spark_gets_all_five_jars() -> None:
    paths = [Path(path) for path in jars.spark_jars().split(",")]
    assert len(paths) == 5
    assert all(path.is_file() for path in paths)
