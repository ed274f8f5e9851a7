"""One row change per event: the handler decodes the event and yields an Upsert.

From the environment, besides what every program is told: TOPOLOGY, its name; it writes to
`<TOPOLOGY>.orders`.
"""

import os
from collections.abc import Iterator

from apps.bench.job import job
from topology import Event, Inspector, Table, Topology, Upsert, key
from topology.faust import compile

work = job()
topology = Topology(os.environ["TOPOLOGY"])
source = topology.source(
    work.input,
    inspector=Inspector(stream=key(), sequence="seq"),
    keyed=True,
    partitions=work.partitions,
)


@topology.view(
    "orders",
    of=source,
    tables=[
        Table("orders", key={"stream": int}, columns={"seq": int, "type": str, "amount": float})
    ],
)
def orders(event: Event) -> Iterator[Upsert]:
    """The stream's latest event, as a row."""
    content = event.content
    yield Upsert(
        "orders",
        key={"stream": content["stream"]},
        values={"seq": content["seq"], "type": content["type"], "amount": content["amount"]},
    )


app = compile(
    topology,
    broker=work.broker,
    group=work.group,
    datadir=str(work.datadir),
    guarantee=work.guarantee,
)
