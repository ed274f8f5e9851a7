"""The flights' three views, re-keyed by aircraft; each writes to `<TOPOLOGY>.<view>`."""

import os

from bench.job import job
from bench.topologies.measured import app_of
from sequitur.flights import topology as flights
from topology import Topology

work = job()
topology = Topology(os.environ["TOPOLOGY"])
source = topology.source(work.input, inspector=flights.inspect, partitions=work.partitions)
board = topology.view("departure_board", of=source, tables=[flights.BOARD])
board(flights.departure_board)
topology.view("aircraft", of=source, tables=[flights.AIRCRAFT])(flights.aircraft)
delay = topology.view("carrier_delay", of=source, accepts={"OUT"}, tables=[flights.CARRIER_DELAY])
delay(flights.carrier_delay)

app = app_of(topology)
