"""A materializer that goes on when its topology is deployed anew: the query is started again."""

import logging
import math
import time
from dataclasses import replace
from threading import Event

from pyspark.sql import SparkSession

from sequitur.kafka.options import OptionError
from sequitur.materialize.open_sink import OpenSink
from sequitur.materialize.outputs import AGAIN_SECONDS, Deployed
from sequitur.materialize.query import Settings, materialize, topics_read
from sequitur.materialize.report import Report
from topology import DeclarationError

log = logging.getLogger("materializer")


def materialize_on(
    spark: SparkSession,
    store: OpenSink,
    settings: Settings,
    stop: Event,
    report: Report,
    deployed: Deployed | None,
) -> None:
    """Materialize until `stop` is set, whatever is deployed meanwhile. Raises as `materialize`.

    Positions are in the store's own transactions, so a query that is started again goes on exactly
    where the one before it was. What cannot be read or is refused by the store is told, and all
    goes on as before; what is refused is tried again, since the store's tables may be others later,
    as after a rebuild. deployed: None where topics were named, which never change.
    """

    unread, again_at = False, math.inf
    refusal: str | None = None

    def changed() -> bool:
        nonlocal unread, again_at
        if deployed is None:
            return False
        if time.monotonic() >= again_at:
            again_at = time.monotonic() + AGAIN_SECONDS
            if store.takes(deployed.outputs):
                return True
        try:
            again = deployed.look()
        except (DeclarationError, OptionError) as error:
            unread = True
            report.tell_problem(f"{error}; going on with the version that was read before")
            return False
        if unread and deployed.read:
            unread = False
            report.tell_problem(refusal)
        return again

    while True:
        report.begin(settings.topics, store.dead(topics_read(spark, settings)))
        if not materialize(spark, store.sink, settings, stop, report, changed):
            return
        assert deployed is not None
        outputs = deployed.outputs
        refused = store.reopen(outputs)
        if refused is not None:
            refusal = f"the topology was deployed anew, but {refused}; going on as before"
            report.tell_problem(refusal)
            again_at = time.monotonic() + AGAIN_SECONDS
            continue
        again_at, refusal = math.inf, None
        report.tell_problem(None)
        settings = replace(settings, topics=outputs.topics, dead_topic=outputs.dead_topic)
        log.info("the topology was deployed anew: reading %s", ", ".join(outputs.topics))
