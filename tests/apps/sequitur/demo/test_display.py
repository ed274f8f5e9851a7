import io

from rich.console import Console

from sequitur.demo.display import Display, Snapshot, line, live_table
from topology import Counts

AHEAD = Counts(received=12, processed=6, passed=4, duplicate=2)
BEHIND = Counts(received=12, processed=7, duplicate=2, waiting=2, late=1, skipped=3)
SNAPSHOT = Snapshot(1500, 2000, {"ahead": AHEAD, "behind": BEHIND}, 1234, "sending")


def test_a_line_shows_the_view_that_is_furthest_behind() -> None:
    assert line(SNAPSHOT, 9.7) == (
        "   10 s  sent 1,500 of 2,000, in order 7, waiting 2, duplicates 2, skipped 3, late 1, "
        "in the read store 1,234 rows (sending)"
    )
    assert line(Snapshot(0, 10), 0) == "    0 s  sent 0 of 10, in the read store 0 rows"


def test_the_table_has_a_row_per_view() -> None:
    console = Console(file=io.StringIO(), width=100)
    console.print(live_table(SNAPSHOT, 9.7))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    rows = [row.split() for row in text.splitlines() if row.strip()]
    assert ["ahead", "10", "0", "2", "0", "0", "0"] in rows
    assert ["behind", "7", "2", "2", "3", "1", "0"] in rows
    assert "in the read store 1,234 rows" in text


def test_without_a_terminal_it_is_plain_lines() -> None:
    output = io.StringIO()
    with Display(output) as display:
        display.show(SNAPSHOT)  # not yet: there is a line every other second
        display.say("[as it is]")
        display.done(SNAPSHOT)
    lines = output.getvalue().splitlines()
    assert lines[0] == "[as it is]"
    assert lines[1].endswith("in the read store 1,234 rows (sending)")
    assert len(lines) == 2
