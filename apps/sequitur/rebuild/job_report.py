"""What a rebuild says of what came of the history."""

import logging
from collections.abc import Mapping

from topology.view_rebuild import Tally

log = logging.getLogger("rebuild")


def report(tallies: Mapping[str, Tally], seconds: float) -> None:
    """Log what came of the history."""
    for name, tally in tallies.items():
        log.info(
            "view %s: %s events of %s streams in %.1f s: %s passed by, %s failed, %s duplicates; "
            "%s sequences are nowhere, %s of them the live view had; %s outputs in %s records",
            name,
            f"{tally.processed + tally.passed + tally.failed:,}",
            f"{tally.streams:,}",
            seconds,
            *(f"{n:,}" for n in (tally.passed, tally.failed, tally.duplicate)),
            *(f"{n:,}" for n in (tally.skipped, tally.missing, tally.outputs, tally.records)),
        )
        for text in tally.reports[:3]:
            log.warning("%s", text)
