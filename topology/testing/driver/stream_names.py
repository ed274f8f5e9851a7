"""Which streams of a view a test names, as an operator would."""

from topology.declaration.lanes import split_lane
from topology.engine.state.lane_names import ids_of, lanes_told, readings
from topology.engine.view_task import ViewTask
from topology.model.printable import printable
from topology.testing.driver import given
from topology.testing.driver.storage import DriverStorage


def stream_id(storage: DriverStorage, task: ViewTask, stream: str) -> str:
    """A stream as the view knows it. Raises ValueError for one with several lanes."""
    ids = stream_ids(storage, task, stream)
    if len(ids) > 1:
        raise ValueError(
            f"stream {printable(stream)!r} has {len(ids)} lanes in view {task.view.name!r}: "
            f"{', '.join(map(printable, ids))}; name one of them"
        )
    return ids[0]


def stream_ids(storage: DriverStorage, task: ViewTask, stream: str) -> list[str]:
    """The stream, or all its lanes, as the view knows them; one at least."""
    text = given.stream("stream", stream)
    declared, topics = task.view, storage.topics
    found = {*ids_of(task.state, text)}
    if declared.split is not None and not task.state.known(text):
        side_topics = [*topics[declared.dead_topic], *topics[declared.errors_topic]]
        for own in (split_lane(r)[0] for r in readings(declared, text) if "|" not in r):
            found |= lanes_told(declared, own, side_topics)
    return sorted(found) or [declared.stream_id(text)]
