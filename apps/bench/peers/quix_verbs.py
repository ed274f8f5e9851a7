"""Quix Streams on the flights: the tables of `Verbs.java`, by its windows and its as-of join.

It runs in an environment of its own, so it imports nothing of this project. Each table goes to the
topic `GROUP.TABLE`. The records' timestamps are the events' own times. From the environment,
besides: WEATHER, TABLES, GRACE, as for `Verbs.java`.
"""

import os
from datetime import timedelta
from typing import Any

from quixstreams import Application  # type: ignore[import-not-found]

GROUP, TABLES = os.environ["GROUP"], os.environ["TABLES"].split(",")
GRACE = timedelta(milliseconds=int(os.environ["GRACE"]))
HISTORY = timedelta(days=30)
app = Application(
    broker_address=os.environ["BROKER"],
    consumer_group=GROUP,
    processing_guarantee="exactly-once",
    state_dir=os.environ["DATADIR"],
    auto_offset_reset="earliest",
    commit_interval=1.0,
    producer_extra_config={"linger.ms": 20},
    consumer_extra_config={"fetch.min.bytes": 1},
)


def topic(name: str, **more: Any) -> Any:
    """A topic of JSON, keyed by text."""
    return app.topic(name, key_deserializer="str", key_serializer="str", **more)


def window(frame: Any, size: timedelta) -> Any:
    """Windows side by side, with the grace."""
    return frame.tumbling_window(size, grace_ms=GRACE)


def write(windows: Any, table: str) -> None:
    """Write what each window comes to, whenever it changes, with the window as the key."""
    named = windows.current().apply(
        lambda row, key, time, headers: {"key": f"{key} {row['start']}", "value": row["value"]},
        metadata=True,
    )
    send(named, table)


def send(frame: Any, table: str) -> None:
    """Send `value` with the key `key`."""
    output = topic(f"{GROUP}.{table}", value_serializer="json")
    frame.to_topic(output, key=lambda row: row["key"])


def flown(move: dict[str, Any], report: dict[str, Any] | None) -> dict[str, Any]:
    """A movement's key, and when the weather at it was reported."""
    return {
        "key": f"{move['tail']} {move['number']}",
        "reported": report and report["time"],
        "wind_speed": report and report["wind_speed"],
    }


out = app.dataframe(topic(os.environ["INPUT"])).filter(lambda move: move["kind"] == "OUT")
if "aircraft_day" in TABLES:
    write(window(out, timedelta(days=1)).count(), "aircraft_day")
if "airport_hour" in TABLES or "flown" in TABLES:
    small = ["tail", "number", "origin", "dep_delay"]
    airports = out[small].group_by("origin")
    if "airport_hour" in TABLES:
        write(
            window(airports.apply(lambda m: m["dep_delay"]), timedelta(hours=1)).mean(),
            "airport_hour",
        )
    if "flown" in TABLES:
        weather = app.dataframe(topic(os.environ["WEATHER"]))
        send(airports.join_asof(weather, how="left", on_merge=flown, grace_ms=HISTORY), "flown")

if __name__ == "__main__":
    app.run()
