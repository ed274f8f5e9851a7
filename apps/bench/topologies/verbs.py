"""The flights' tables by Sequitur's verbs. From the environment, besides: TABLES, by commas,
WEATHER, the topic of the reports, and SKIP, after how many seconds a gap is given up, if ever."""

import os

from bench.job import job
from bench.topologies.measured import app_of
from bench.verbs.topology import declared

work, given_up = job(), os.environ.get("SKIP")
app = app_of(
    declared(
        os.environ["TOPOLOGY"],
        work.input,
        os.environ["WEATHER"],
        os.environ["TABLES"].split(","),
        work.partitions,
        None if given_up is None else float(given_up),
    )
)
