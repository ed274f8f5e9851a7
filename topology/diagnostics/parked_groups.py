"""Parked streams that failed for the same reason."""

from collections.abc import Iterator

from topology.diagnostics.explain.columns import columns
from topology.diagnostics.explain.parked_streams import ParkedStream, ParkedStreams
from topology.diagnostics.explain.times import lasting
from topology.diagnostics.side_topics import alike
from topology.model.counted import counted
from topology.model.printable import printable


def by_reason(found: ParkedStreams) -> dict[tuple[str, str], list[ParkedStream]]:
    """Group parked streams by view and by what their reasons have in common.

    Args:
        found: as `parked` gives them.

    Returns:
        (view, reason) → the streams, the largest group first.
    """
    groups: dict[tuple[str, str], list[ParkedStream]] = {}
    for each in found.streams:
        groups.setdefault((each.view, alike(each.reason or "")), []).append(each)
    return dict(sorted(groups.items(), key=lambda group: -len(group[1])))


def groups_text(found: ParkedStreams) -> Iterator[str]:
    """Say how large each group is, a line for each.

    Args:
        found: as `parked` gives them.
    """
    groups = by_reason(found)
    if groups:
        head = ("streams", "wait", "view", "oldest", "sample", "reason")
        yield from columns(
            [
                head,
                *(
                    (
                        f"{len(streams)}", f"{sum(each.waiting for each in streams)}", view,
                        f"{lasting(found.now - streams[0].since)} ago",
                        printable(streams[-1].stream, 40), printable(reason, 100),
                    )
                    for (view, reason), streams in groups.items()
                ),
            ]
        )  # fmt: skip
    streams = counted(len(found.streams), "parked stream")
    others = counted(found.others, "other is", "others are")
    more = f"; {others} parked" if found.others else ""
    yield f"{streams} in {counted(len(groups), 'group')}{more}"
    yield from found.unseen
