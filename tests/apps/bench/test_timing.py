import pytest

from bench.timing import Look, Stalled, timing


def test_the_rate_is_between_the_first_and_the_last_growth() -> None:
    looks = [
        Look(0.0, (0,), 0.0),
        Look(2.0, (100,), 1.0),
        Look(3.0, (600,), 1.5),
        Look(4.0, (1100,), 2.0),
        Look(9.0, (1100,), 3.0),
    ]
    found = timing(looks, 1100, [1100])
    assert (found.first, found.all) == (2.0, 4.0)
    assert found.rate == pytest.approx(500)
    assert found.cpu == pytest.approx(1000)


def test_markers_of_transactions_are_no_records() -> None:
    looks = [Look(1.0, (210,), 0.0), Look(2.0, (1050,), 1.0)]
    assert timing(looks, 1000, [1049]).rate == pytest.approx(800)


def test_a_transaction_without_records_does_not_move_the_end() -> None:
    looks = [Look(1.0, (100, 200), 0.0), Look(2.0, (500, 600), 1.0), Look(3.0, (501, 601), 2.0)]
    found = timing(looks, 1100, [500, 600])
    assert found.all == 2.0
    assert found.rate == pytest.approx(800)


def test_a_record_that_comes_behind_the_last_look_is_not_waited_for() -> None:
    looks = [Look(1.0, (100,), 0.0), Look(2.0, (600,), 1.0)]
    assert timing(looks, 600, [601]).all == 2.0


def test_where_all_came_at_once_starting_up_counts() -> None:
    found = timing([Look(0.5, (0,), 0.0), Look(2.0, (100,), 1.0)], 100, [100])
    assert found.rate == pytest.approx(50)
    assert found.cpu == pytest.approx(10_000)


def test_records_behind_the_first_look_are_all_counted_whatever_was_put_out_before() -> None:
    found = timing([Look(0.0, (900,), 1.0), Look(2.0, (1000,), 2.0)], 500, [1000], behind=True)
    assert found.rate == pytest.approx(250)
    assert found.cpu == pytest.approx(2000)


def test_where_nothing_came_behind_the_first_look_there_is_no_rate() -> None:
    with pytest.raises(Stalled, match="nothing came of 500 records"):
        timing([Look(0.0, (900,), 1.0)], 500, [900], behind=True)
