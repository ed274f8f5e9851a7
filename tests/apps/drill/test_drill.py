"""The drill's own judgement: it finds what is missing, what is doubled, and what the lag missed."""

from collections import Counter

from drill.check import There, at_the_end, before_return, behind_loss, loss_shown
from drill.traffic import Traffic, aircraft_of
from drill.views import View
from sequitur.flights.movements import source_table
from stores.sites import Origin, Site

TRAFFIC = Traffic({"newark": [("N1", 1), ("N1", 3)], "kennedy": [("N1", 2)]}, 1, 1)
ALL = [("N1", 1), ("N1", 2), ("N1", 3)]


def view(*numbers: int) -> View:
    made = View(Site("newark", {}), "t")
    made.take([b'{"tail": "N1", "number": %d}' % number for number in numbers])
    return made


def there(movements: list[tuple[str, int]], copies: int = 1) -> There:
    return There(Counter(movements), Counter({Origin("k", "t", 0, 5): copies}))


def test_a_view_says_what_waits_behind_a_gap_and_what_came_twice() -> None:
    waits = view(1, 3)
    assert (waits.ready, waits.waiting, waits.gaps, waits.last()) == (1, 1, 1, {"N1": 1})
    waits.take([b'{"tail": "N1", "number": 2}', b'{"tail": "N1", "number": 1}'])
    assert (waits.ready, waits.waiting, waits.gaps, waits.duplicates) == (3, 0, 0, 1)


def test_each_movement_is_at_each_site_once() -> None:
    assert at_the_end(TRAFFIC, {"newark": there(ALL)}, {"newark": view(1, 2, 3)}) == []
    for movements, copies, numbers in (
        (ALL[:2], 1, (1, 2, 3)),
        ([*ALL, ALL[0]], 1, (1, 2, 3)),
        (ALL, 2, (1, 2, 3)),
        (ALL, 1, (1, 3)),
        (ALL, 1, (1, 2, 2, 3)),
    ):
        found = at_the_end(
            TRAFFIC, {"newark": there(movements, copies)}, {"newark": view(*numbers)}
        )
        assert len(found) == 1


def test_before_the_return_exactly_what_the_lag_had_said_is_missing() -> None:
    acked = {(0, 4): ("N1", 1), (0, 5): ("N1", 2), (1, 9): ("N1", 3)}
    lost = [{"partition": 0, "low": 5, "messages": 1}, {"partition": 1, "low": 10, "messages": 0}]
    have = {"newark": there([("N1", 1), ("N1", 3)])}
    assert before_return(0, acked, lost, have) == []
    assert len(before_return(1, acked, [], have)) == 1, "with a copy nothing may be missing"
    assert len(before_return(0, acked, lost, {"newark": there(ALL)})) == 1
    assert len(before_return(0, acked, [{**lost[0], "messages": 2}], have)) == 1


def test_what_is_lost_shows_as_gaps_in_the_views() -> None:
    lost = [("N1", 2), ("N1", 4), ("N2", 1), ("N3", 1)]
    # Behind N1's second movement its third one waits; of N2 nothing came; N3's was not lost.
    gaps = {"newark": behind_loss(lost, there([("N1", 1), ("N1", 3), ("N3", 1), ("N3", 2)]))}
    assert gaps == {"newark": {"N1"}}
    assert loss_shown(gaps, {"newark": view(1, 3)}) == []
    (wrong,) = loss_shown(gaps, {"newark": view(1, 2, 3)})
    assert "newark: 1 aircraft do not wait, N1 among them" in wrong
    assert behind_loss(lost[:1], there(ALL)) == set()
    (wrong,) = loss_shown({"newark": set()}, {"newark": view(1, 3)})
    assert "makes no gap in any view" in wrong


def test_the_aircraft_of_the_flights_use_several_airports() -> None:
    assert aircraft_of(source_table().rename(columns={"tailnum": "tail"})) == (4_043, 2_850)
