"""What is left of a closed stream when its time is over."""

from stores.view_state.memory import MemoryTable
from topology.engine.state.closed_streams import ClosedStreams
from topology.engine.state.rows import decode_progress, progress_key
from topology.sequencer.progress import Progress

DUE = 5_000


def test_a_closed_stream_that_was_rebuilt_once_keeps_its_epoch() -> None:
    """Read stores tell by it what is newer: what comes of the stream later would change nothing."""
    table = MemoryTable()
    closed = ClosedStreams(table)
    known: dict[str, int | Progress] = {
        "rebuilt": Progress(9, closed=DUE, epoch=3),
        "plain": Progress(9, closed=DUE),
    }
    table.write(closed.note(known.items()))
    assert closed.drop(DUE - 1, known.__getitem__, 0) == (set(), [])
    streams, rows = closed.drop(DUE, known.__getitem__, 0)
    assert streams == {"plain", "rebuilt"}
    left = dict(rows)
    assert left[progress_key("plain")] is None
    row = left[progress_key("rebuilt")]
    assert row is not None
    assert decode_progress(row)[0] == Progress(0, epoch=3)
