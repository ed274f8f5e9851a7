"""What the console keeps of its looks: rates, lags and places, in bounded memory."""

from sequitur.console.charts import options, spoken
from sequitur.console.samples import KEPT, PLACES, Samples, Situation, came
from topology.diagnostics.explain import ViewTally
from topology.diagnostics.lateness_bars import lateness_bars
from topology.faust.inspection import ViewCounts
from topology.faust.inspection.consumer_group import ConsumerGroup
from topology.model.counts import Counts


def look(samples: Samples, now: float, processed: int, position: int, end: int) -> Situation:
    counts = Counts(received=processed + position, processed=processed, waiting=2)
    tally = ViewTally(
        "board", "orders", counts, 0, None, end - position, {}, (), (), (),
        positions={0: (position, end)},
    )  # fmt: skip
    return samples.note(ViewCounts([], [tally]), ConsumerGroup("Stable", {}), now, 1_000 + now)


def test_a_rate_is_of_two_looks_and_a_lag_is_since_an_end_was_seen() -> None:
    samples = Samples()
    first = look(samples, 0, 100, 50, 60)
    assert first.rates == {}
    assert first.lags == {"board": 0.0}
    second = look(samples, 4, 140, 55, 70)
    assert second.rates == {"board": 10.0, came("board"): 11.25}
    assert second.lags == {"board": 4.0}
    assert look(samples, 8, 140, 70, 70).lags == {"board": 0.0}


def test_a_look_that_shows_nothing_new_is_the_same() -> None:
    samples = Samples()
    look(samples, 0, 100, 60, 60)
    assert look(samples, 3, 100, 60, 60) == look(samples, 6, 100, 60, 60)


def test_places_are_kept_over_time_and_not_for_ever() -> None:
    samples = Samples()
    for n in range(KEPT + 5):
        look(samples, n, n, 1, 1)
    lines = samples.lines("board", *PLACES)
    assert lines["processed"][0] == (1_005, 5)
    assert len(lines["waiting"]) == KEPT
    assert samples.lines("another", "waiting") == {"waiting": []}


def test_a_chart_is_said_in_words_and_has_no_text_as_it_is() -> None:
    lines = {"<b>\u202e": [(1.0, 2.0), (2.0, 1234.0)]}
    assert spoken("Waiting", lines) == "Waiting; now: <b>\\u202e 1,234"
    drawn = options("\u202eWaiting", lines)
    assert drawn["series"][0]["data"] == [[1000.0, 2.0], [2000.0, 1234.0]]
    assert drawn["tooltip"]["renderMode"] == "richText"  # no HTML is made of names
    assert "\u202e" not in str(drawn)


def test_latenesses_are_summed_up_to_the_last_range_that_has_some() -> None:
    assert lateness_bars([]) == []
    assert lateness_bars([(5, 1), (10, 1), (2_000, 3)]) == [
        ("up to 10 ms", 2), ("10 to 100 ms", 0), ("0.1 to 1 s", 0), ("1 to 10 s", 3),
    ]  # fmt: skip
    assert lateness_bars([(1e12, 1)])[-1] == ("1 day and more", 1)
