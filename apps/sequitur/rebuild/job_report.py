"""What a rebuild says of what came of the history."""

import logging
from collections.abc import Mapping

from topology.model.counted import counted
from topology.view_rebuild import Tally

log = logging.getLogger("rebuild")


def report(tallies: Mapping[str, Tally], seconds: float) -> None:
    """Log what came of the history."""
    for name, tally in tallies.items():
        log.info(
            "view %s: %s of %s in %.1f s: %s passed by, %s failed, %s duplicate; %s missing, "
            "of them %s that the live view had; %s in %s",
            name,
            counted(tally.processed + tally.passed + tally.failed, "event"),
            counted(tally.streams, "stream"),
            seconds,
            *(f"{n:,}" for n in (tally.passed, tally.failed, tally.duplicate)),
            counted(tally.skipped, "sequence"),
            f"{tally.missing:,}",
            counted(tally.outputs, "output"),
            counted(tally.records, "record"),
        )
        if refused := tally.malformed + tally.unknown:
            log.warning(
                "view %s: %s of the history, in which the inspector finds no event now, left out",
                name,
                counted(refused, "message is", "messages are"),
            )
        for text in tally.reports[:3]:
            log.warning("%s", text)
