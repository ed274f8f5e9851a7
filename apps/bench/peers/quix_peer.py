"""Quix Streams: a stateful function over a dataframe, its state in RocksDB with a changelog.

It runs in an environment of its own, so it imports nothing of this project.
"""

import os
from typing import Any

from quixstreams import Application  # type: ignore[import-not-found]

app = Application(
    broker_address=os.environ["BROKER"],
    consumer_group=os.environ["GROUP"],
    processing_guarantee=os.environ["GUARANTEE"].replace("_", "-"),
    state_dir=os.environ["DATADIR"],
    auto_offset_reset="earliest",
    commit_interval=1.0,
    producer_extra_config={"linger.ms": 20},
    consumer_extra_config={"fetch.min.bytes": 1},
)
source = app.topic(os.environ["INPUT"], key_deserializer="bytes", value_deserializer="json")
output = app.topic(os.environ["OUTPUT"], key_serializer="bytes", value_serializer="json")


def resequence(event: dict[str, Any], state: Any) -> list[dict[str, Any]]:
    """The events that are next in their stream now; early ones are kept in the state."""
    last, sequence = state.get("last", 0), event["seq"]
    if sequence <= last:
        return []
    if sequence != last + 1:
        slot = f"waiting {sequence}"
        if not state.exists(slot):
            state.set(slot, event)
        return []
    ready, last = [event], sequence
    while (event := state.get(slot := f"waiting {last + 1}")) is not None:
        state.delete(slot)
        ready.append(event)
        last += 1
    state.set("last", last)
    return ready


app.dataframe(source).apply(resequence, stateful=True, expand=True).to_topic(output)

if __name__ == "__main__":
    app.run()
