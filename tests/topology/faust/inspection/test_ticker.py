"""Progress of long looks: a line that changes on a terminal, plain lines now and then elsewhere."""

import io

from topology.faust.inspection.ticker import EVERY, Ticker


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def ticked(out: io.StringIO, seconds: float) -> str:
    now = [100.0]
    ticker = Ticker("audit", 1_000_000, out, lambda: now[0])
    for _ in range(4):
        now[0] += seconds
        ticker.add(100_000)
    ticker.end()
    return out.getvalue()


def test_a_log_gets_plain_lines_with_an_estimate() -> None:
    told = ticked(io.StringIO(), EVERY)
    assert told.isascii()
    lines = told.splitlines()
    assert len(lines) == 4
    assert lines[1] == "audit: 200,000 of 1,000,000 records, 20%, about 80 s left"
    assert all(line.isprintable() for line in lines)


def test_what_is_quickly_over_says_nothing_in_a_log() -> None:
    assert ticked(io.StringIO(), EVERY / 100) == ""


def test_a_terminal_has_one_line_that_is_gone_in_the_end() -> None:
    told = ticked(Terminal(), 1.0)
    assert "\n" not in told
    assert "audit: 400,000 of 1,000,000 records, 40%, about 6 s left" in told
    assert told.endswith(" \r")
