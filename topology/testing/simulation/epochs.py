"""What the last epoch of a rebuilt stream says, as it would without the epochs before it."""

from typing import Any

import orjson

Outputs = list[tuple[int, bytes]]


def last_epoch(found: Outputs) -> Outputs:
    """The records of the last epoch: without the number, and without what the first one clears.

    What is cleared are deletes of rows: the handlers of a simulation delete no row at the start.
    """
    bodies: list[dict[str, Any]] = [orjson.loads(value) for _, value in found]
    highest = max((body.get("epoch", 0) for body in bodies), default=0)
    if not highest:
        return found
    last = [body for body in bodies if body.pop("epoch", 0) == highest]
    changes = last[0]["changes"]
    while changes and changes[0]["op"] == "delete":
        del changes[0]
    return [(body["sequence"], orjson.dumps(body)) for body in last if body["changes"]]
