"""Rules in a cascade. ROUTING: prefix, number of rules, broker, data folder."""

import os

from bench.routing.work import PARTITIONS, cascade
from topology import Topology
from topology.faust import compile

prefix, count, broker, datadir = os.environ["ROUTING"].split(" ")
topology = Topology(prefix)
rules = cascade(f"{prefix}.in", f"{prefix}.out", int(count))
topology.route("routed", rules=rules, partitions=PARTITIONS)
app = compile(topology, broker=broker, datadir=datadir, group=prefix)
