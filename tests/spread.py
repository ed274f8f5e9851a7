"""How tests are spread over xdist's workers, `-p tests.spread` beside `--dist loadfile`.

A file's tests run in one process, and so do files that share what takes long to start.
"""

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

SHARED = {
    "Spark": (
        "tests/apps/sequitur/materialize/test_dead_rows.py",
        "tests/apps/sequitur/rebuild/test_load.py",
        "tests/apps/sequitur/rebuild/test_replay_history.py",
        "tests/stores/locks/test_claims.py",
        "tests/stores/sinks/delta/test_sink.py",
        "tests/stores/sinks/test_replacement.py",
        "tests/topology/spark/test_captured.py",
        "tests/topology/spark/test_rebuild_job.py",
    ),
    "Delta Lake": (
        "tests/apps/sequitur/materialize/test_integration.py",
        "tests/stores/sinks/delta/test_distributed.py",
        "tests/stores/sinks/delta/test_refused.py",
        "tests/stores/sinks/delta/test_two_writers.py",
    ),
    "the flights": (
        "tests/apps/sequitur/flights/test_flown.py",
        "tests/apps/sequitur/flights/test_grouped.py",
        "tests/apps/sequitur/flights/test_movements.py",
        "tests/apps/sequitur/flights/test_network.py",
        "tests/apps/sequitur/flights/test_topology.py",
        "tests/apps/sequitur/flights/test_verbs.py",
        "tests/apps/sequitur/flights/test_verify.py",
    ),
    "RabbitMQ": (
        "tests/apps/sequitur/route/test_units.py",
        "tests/apps/soak_segments/test_soak.py",
        "tests/stores/segments/test_rabbitmq.py",
    ),
    "the console and a browser": (
        "tests/apps/sequitur/console/test_attacks.py",
        "tests/apps/sequitur/console/test_contrast.py",
        "tests/apps/sequitur/console/test_overview.py",
        "tests/apps/sequitur/console/test_parts.py",
        "tests/apps/sequitur/console/test_reports.py",
        "tests/apps/sequitur/console/test_streams.py",
    ),
    "the second site's broker": (
        "tests/apps/sequitur/sites/test_commands.py",
        "tests/stores/sites/test_attacks.py",
        "tests/stores/sites/test_forwarding.py",
        "tests/stores/sites/test_takeover.py",
    ),
}
LONG = (
    "tests/topology/testing/simulation/test_finds_planted.py",
    "tests/stores/sinks/sql/test_sqlite.py",
    "tests/stores/view_state/test_sqlite.py",
    "tests/apps/bench/test_verbs.py",
    "tests/topology/diagnostics/audit/test_corruption.py",
    "tests/topology/faust/worker/ordered/test_processes.py",
    "tests/topology/engine/test_orders_batches.py",
)
"""The longest of the files without servers: they begin before the others, so that none ends alone.
"""
_UNITS = {file: name for name, files in SHARED.items() for file in files}


class Spread(LoadFileScheduling):  # type: ignore[misc]
    """Hands out whole files, and some files together."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return _UNITS.get(file, file)


@pytest.hookimpl(trylast=True)  # all with a server are in front by then
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long begins early: servers and processes, then LONG, then the others."""
    places = {file: place for place, file in enumerate(LONG)}

    def place(item: pytest.Item) -> int:
        if item.get_closest_marker("integration") is not None:
            return -1
        return places.get(item.nodeid.partition("::")[0], len(places))

    items.sort(key=place)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    return Spread(config, log)
