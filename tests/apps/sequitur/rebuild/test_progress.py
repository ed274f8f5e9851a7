"""Progress tells the share that is done, and the time left at the pace of this run."""

from sequitur.rebuild.progress import Progress


def test_the_time_left_is_by_what_this_run_has_done() -> None:
    now = [100.0]
    progress = Progress("rebuilding", lambda: now[0])
    progress.tell(4, 12)
    assert progress.left(4, 12) is None
    now[0] = 110.0
    assert progress.left(6, 12) == 30.0
    assert progress.line(6, 12, "task 1 of 2") == "rebuilding: 50%, about 30 s left (task 1 of 2)"
    assert progress.line(12, 12) == "rebuilding: 100%"
    assert progress.line(0, 0) == "rebuilding: 100%"
