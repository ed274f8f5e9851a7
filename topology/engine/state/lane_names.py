"""Which streams of a view a text names, as a person writes it.

In a view without lanes that is one stream. In a view with lanes a text names a stream, with all its
lanes, or one of them as `stream|lane`. The stream is written as its producer writes it, bars
included, or as rows and logs have it, with `%7C` for a bar of its own.
"""

from collections.abc import Callable, Iterable, Mapping

from topology.declaration.lanes import escaped, joined_lane, split_lane
from topology.declaration.view import View
from topology.engine.state.rows import progress_key
from topology.engine.state.view_state import ViewState
from topology.inspectors.stream_ids import StreamIds
from topology.model.event import Message
from topology.model.partition_table import PartitionTable


def readings(view: View, text: str) -> list[str]:
    """What a text may mean, the likeliest first: a lane as `stream|lane`, escaped, or a stream
    without one, escaped as well. Of a view without lanes it is the stream's id alone."""
    if view.split is None:
        return [view.stream_id(text)]
    source, lanes = view.of, StreamIds()
    found = [view.stream_id(text)] if "|" in text else []
    for at in (at for at, letter in enumerate(text) if letter == "|"):
        lane = lanes.read(text[at + 1 :])
        found.append(joined_lane(source.stream_id(text[:at]), lane))
    found.append(escaped(source.stream_id(text)))
    if "|" not in text:
        found.append(escaped(source.stream_id(split_lane(text)[0])))
    return list(dict.fromkeys(found))


def names(view: View, text: str, stream: str) -> bool:
    """Whether a text names a stream, as the view's rows, logs, dead topic and commands have it.

    Where a view has lanes, these may have the stream alone, too, as late records do.
    """
    if stream == text:
        return True
    found = readings(view, text)
    if view.split is None:
        return stream in found
    own = {escaped(split_lane(stream)[0]), escaped(stream)}
    return any(each == stream or ("|" not in each and each in own) for each in found)


Meant = Callable[[str, str | None], bool]
"""A view's name and a stream, if there is one → whether it is the stream that is meant."""


def meant_by(views: Mapping[str, View], text: str) -> Meant:
    """The streams that a text names in views; where a view is not declared, the very text."""

    def meant(view: str, stream: str | None) -> bool:
        if stream is None or view not in views:
            return stream == text
        return names(views[view], text, stream)

    return meant


def ids_of(state: ViewState, text: str) -> list[str]:
    """The streams that a task knows of those that a text may mean; none if it knows none."""
    if state.known(text):
        return [text]
    found: list[str] = []
    for reading in readings(state.view, text):
        if state.view.split is None or "|" in reading:
            found += [reading] if state.known(reading) else []
        else:
            found += lanes_of(state.table, split_lane(reading)[0])
    return list(dict.fromkeys(found))


def lanes_told(view: View, stream: str, records: Iterable[Message]) -> set[str]:
    """The lanes of a stream that records of the dead topic or the error log are of."""
    start, name = joined_lane(stream, "").encode(), ("view", view.name.encode())
    keys = {record.key for record in records if name in record.headers}
    return {key.decode() for key in keys if key is not None and key.startswith(start)}


def lanes_of(table: PartitionTable, stream: str) -> list[str]:
    """The lanes of a stream that a table has, as the view's streams."""
    start = progress_key(joined_lane(stream, ""))
    return [key[1:].decode() for key, _ in table.scan(start, start + b"\xff")]
