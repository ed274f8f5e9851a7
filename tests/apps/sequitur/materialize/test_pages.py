"""What a materializer answers about itself."""

import time

from sequitur.materialize.pages import MaterializerPages
from sequitur.materialize.report import STALE_SECONDS, Report
from stores.sinks import Applied

SOURCE = {"latestOffset": '{"a": {"0": 10, "1": 5}}', "endOffset": '{"a": {"0": 8, "1": 5}}'}


async def test_the_figures_are_those_of_the_query() -> None:
    report = Report("broker", ["a"])
    pages = MaterializerPages(report)
    assert await pages.troubles() == ["nothing is read from broker yet"]
    report.begin(["a"], 3)
    report.done.add(0, Applied(records=5, applied=4, dead=1, upserts=3, deletes=1), 0.5)
    report.source = SOURCE
    assert await pages.troubles() == []
    found = {
        " ".join((sample.name, *sample.labels.values())): sample.value
        for family in pages.registry.collect()
        for sample in family.samples
    }
    assert found["sequitur_materializer_lag_records a 0"] == 2
    assert found["sequitur_materializer_lag_records a 1"] == 0
    assert found["sequitur_materializer_records_total applied"] == 4
    assert found["sequitur_materializer_rows_total upsert"] == 3
    assert found["sequitur_materializer_dead_records"] == 4
    assert found["sequitur_materializer_batch_seconds_sum"] == 0.5


async def test_what_spark_does_not_tell_and_what_is_wrong_are_named() -> None:
    report = Report("broker", ["a"])
    pages = MaterializerPages(report)
    report.source, report.known_at = SOURCE, time.monotonic() - STALE_SECONDS - 1
    report.tell_problem("the topology cannot be read")
    stale, problem = await pages.troubles()
    assert "the broker broker does not answer" in stale
    assert problem == "the topology cannot be read"
