"""What a soak has done is kept, found again for the same seed only, and told as a table."""

from pathlib import Path

from soak.done import Done, Round, load, save
from soak.rounds import Soaking

ROUNDS = [
    Round(7, "exactly_once", 1000, 61, {"kill": 3, "stop": 1}),
    Round(8, "at_least_once", 500, 9, {"kill": 2}),
]


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    file = tmp_path / "done.json"
    assert load(file, 7) is None
    save(file, Done(7, ROUNDS))
    found = load(file, 7)
    assert found == Done(7, ROUNDS)
    assert (found.next_seed, found.harms, found.seconds) == (9, 6, 70)
    assert load(file, 8) is None
    file.write_text('{"seed": 7, "rounds": 2, "harms": 50}')
    assert load(file, 7) is None


def test_the_table_has_each_harm() -> None:
    soaking = Soaking("soak", None, ("one",), 1, 1, "messages", "all right")
    *harms, last = soaking.table(Done(7, ROUNDS)).splitlines()
    assert [line.split() for line in harms] == [["kill", "5"], ["stop", "1"]]
    assert last == "6 harms in 2 rounds, 1,500 messages, 1 min 10 s: all right"
