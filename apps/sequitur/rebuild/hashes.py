"""Compares what each stream says in a rebuild with what it said in the output topic."""

import logging

from sequitur.rebuild.build import Build
from topology.model.counted import counted
from topology.spark import history, output_hashes, rebuild

SHOWN = 5

log = logging.getLogger("rebuild")


def compare_hashes(build: Build) -> dict[str, int]:
    """Tell how many streams say something else. Returns view → their number."""
    snapshot = build.plan.snapshot
    found: dict[str, int] = {}
    for view in build.views:
        spans = snapshot.said[view.output]
        outputs = history.of_topics(build.spark, build.kafka, {view.output: spans})
        said = rebuild.by_stream(outputs)
        frame = rebuild.cogroup([said], build.progress([view]), build.plan.slices)
        live = output_hashes.hashes(frame)
        ours = {
            stream: chain for (name, stream), chain in build.chains.items() if name == view.name
        }
        differ = sorted(s for s in live.keys() | ours.keys() if live.get(s) != ours.get(s))
        cut = any(first > 0 for first, _ in spans.values())
        log.info(
            "view %s: of %s that had outputs, %s differ%s%s",
            view.name,
            counted(len(live.keys() | ours.keys()), "stream"),
            f"{len(differ):,}",
            f": {', '.join(differ[:SHOWN])}" if differ else "",
            "; the output topic lacks its beginning" if cut else "",
        )
        found[view.name] = len(differ)
    return found
