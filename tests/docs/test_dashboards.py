"""The page, the dashboard and the alerts name what is exported, with the labels that it has."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from prometheus_client import Histogram

from sequitur.alerts.pages import AlertPages
from sequitur.inbox.pages import InboxPages
from sequitur.kafka.probe import BrokerProbe
from sequitur.materialize.pages import MaterializerPages
from sequitur.materialize.report import Report
from sequitur.relay.leadership import RelayCounts
from sequitur.relay.pages import RelayPages
from sequitur.replay.pages import CapturePages
from sequitur.replay.server.pages import ServerPages
from sequitur.route.pages import RoutePages
from sequitur.sites.pages import SitePages
from sequitur.units.pages import UnitPages
from topology.faust.processes.pages import AllPages
from topology.faust.worker.watch.worker_pages import WorkerPages
from topology.monitoring import Pages

DOCS = Path(__file__).parents[2] / "docs"
DASHBOARD = DOCS / "dashboards" / "grafana.json"
ALERTS = DOCS / "dashboards" / "alerts.yml"
OF_PROMETHEUS = {"job", "instance"}
"""Labels that it adds to all."""

_METRIC = re.compile(r"\b(sequitur_\w+)(?:\{([^}]*)\})?")
_BY = re.compile(r"\bby \(([^)]*)\)")


def every_process() -> list[Pages]:
    """The pages of each, of processes that have nothing yet."""
    nothing: Any = SimpleNamespace
    engine = nothing(
        context=nothing(timings=None),
        running=[],
        tables=nothing(restoring={}),
        is_assigned=False,
    )
    relay = nothing(
        term=None,
        moved=RelayCounts(),
        leading=nothing(is_set=lambda: False),
        unavailable=None,
    )
    feed = nothing(positions={}, failing=None)
    alerts = nothing(
        actions=nothing(done=0, failed=0, all_held_back=0), watching=False, records=0, alerts={}
    )
    server = nothing(owners={}, partitions=None, settings=nothing(destination="orders", kafka={}))
    return [
        WorkerPages(engine),
        AllPages([]),
        RelayPages(relay, nothing(), nothing(), BrokerProbe({})),
        InboxPages(nothing(), feed),
        MaterializerPages(Report("broker", ["orders"])),
        UnitPages(server),
        RoutePages(nothing(), {}, {}),
        CapturePages(nothing(works={}, counts={}), {}, nothing()),
        ServerPages(nothing(replays=nothing(engine=nothing())), nothing(), {}),
        AlertPages(alerts, {}),
        SitePages([], {}),
    ]


def exported() -> dict[str, set[str]]:
    """Metric → its labels."""
    found: dict[str, set[str]] = {}
    for pages in every_process():
        for family in pages.collect():
            labels: Any = getattr(family, "_labelnames", ())
            found[family.name + "_total" * (family.type == "counter")] = set(labels)
        for part in pages.registry._collector_to_names:
            if isinstance(part, Histogram):
                found[part._name] = set(part._labelnames)
    return found


def in_queries() -> dict[str, set[str]]:
    """What a query may name: histograms are several series."""
    found = exported()
    for pages in every_process():
        for part in pages.registry._collector_to_names:
            if isinstance(part, Histogram):
                labels = found.pop(part._name, set(part._labelnames))
                found |= {f"{part._name}{end}": labels for end in ("_sum", "_count")}
                found[f"{part._name}_bucket"] = labels | {"le"}
    return found


def queries() -> Iterator[tuple[str, str]]:
    """(a query, the text beside it with labels) of dashboard, alerts and page."""
    board = json.loads(DASHBOARD.read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"], target["legendFormat"]
    for group in yaml.safe_load(ALERTS.read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["expr"], rule["annotations"]["summary"].replace("$labels.", "")
    for line in re.findall(r"^\| [^|]+ \| `([^`]*sequitur_[^`]*\([^`]*)` \|$", PAGE, re.MULTILINE):
        yield line, ""


PAGE = (DOCS / "metrics.md").read_text()


def test_the_page_names_what_is_exported_with_its_labels() -> None:
    rows = re.findall(r"^\| `(sequitur_\w+)` \|([^|]*)\|", PAGE, re.MULTILINE)
    told = {
        name: {each.strip() for each in labels.split(",") if each.strip()} for name, labels in rows
    }
    assert len(told) == len(rows)
    assert told == exported()


@pytest.mark.parametrize(("query", "text"), list(queries()))
def test_a_query_asks_for_what_is_exported(query: str, text: str) -> None:
    known = in_queries()
    named = _METRIC.findall(query)
    assert named
    assert query.count("(") == query.count(")")
    of_all: list[set[str]] = []
    for name, selector in named:
        assert name in known
        of_all.append(known[name] | OF_PROMETHEUS)
        assert set(re.findall(r"(\w+)\s*[=!]", selector)) <= of_all[-1]
    kept = [{each.strip() for each in by.split(",")} for by in _BY.findall(query)]
    for labels in kept:
        assert labels <= set.intersection(*of_all)
    shown = set(re.findall(r"\{\{ ?(\w+) ?\}\}", text))
    assert shown <= (set.intersection(*kept) if kept else set())


def test_each_metric_of_a_kind_that_needs_somebody_has_an_alert() -> None:
    rules = ALERTS.read_text()
    for metric in exported():
        if re.search(r"halted|_up$|refused_messages|lag_seconds|oldest|parked|dead_", metric):
            alike = {"sequitur_materializer_dead_records", "sequitur_inbox_dead_messages"}
            assert metric in rules or metric in alike, metric


def test_the_dashboard_s_variable_is_a_label_of_what_it_asks() -> None:
    board = json.loads(DASHBOARD.read_text())
    (found,) = (each["query"] for each in board["templating"]["list"] if each["name"] == "view")
    metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", found).groups()  # type: ignore[union-attr]
    assert label in in_queries()[metric]
