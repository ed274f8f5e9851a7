"""One row change per event: the handler decodes the event and yields an Upsert.

It writes to `<TOPOLOGY>.orders`.
"""

from collections.abc import Iterator

from bench.topologies.measured import app_of, declared
from topology import Event, Table, Upsert

topology, source = declared()


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


app = app_of(topology)
