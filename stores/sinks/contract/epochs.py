"""A stream that its worker makes again comes with the next epoch."""

from typing import Any

import pytest

from stores.sinks import OutputRecord, StoreError
from stores.sinks.contract.example_records import TOPIC, delete, order, upsert, value
from stores.sinks.contract.store import StoreUnderTest


def _again(offset: int, sequence: int, epoch: int, **values: Any) -> OutputRecord:
    change = upsert("orders", {"id": 1}, **values)
    return TOPIC, 0, offset, value("a", sequence, change, epoch=epoch)


class EpochsContract(StoreUnderTest):
    def test_a_higher_epoch_is_applied_whatever_its_sequence(self) -> None:
        self.apply(order(0, 8, state="first"), order(1, 9, total=1.0))
        gone = TOPIC, 0, 2, value("a", -1, delete("orders", {"id": 1}), epoch=1)
        done = self.apply(gone, _again(3, 0, 1, state="again"))
        assert (done.applied, done.duplicates) == (2, 0)
        assert self.rows("orders") == {(1,): {"state": "again"}}

    @pytest.mark.parametrize("together", [True, False])
    def test_a_lower_epoch_is_a_duplicate(self, together: bool) -> None:
        batches = [
            [order(0, 5, state="first"), _again(1, 1, 2, state="again")],
            [order(2, 6, state="late"), _again(3, 9, 1), _again(4, 1, 2, state="twice")],
            [_again(5, 2, 2, total=2.0)],
        ]
        done = [
            self.apply(*b) for b in ([[r for b in batches for r in b]] if together else batches)
        ]
        assert (sum(d.applied for d in done), sum(d.duplicates for d in done)) == (3, 3)
        assert self.rows("orders") == {(1,): {"state": "again", "total": 2.0}}

    def test_epoch_0_need_not_be_said(self) -> None:
        self.apply(_again(0, 5, 0, state="said"))
        assert self.apply(order(1, 5, state="not said")).duplicates == 1

    def test_streams_have_epochs_of_their_own(self) -> None:
        self.apply(_again(0, 1, 3))
        other = TOPIC, 0, 1, value("b", 1, upsert("orders", {"id": 2}))
        assert self.apply(other).applied == 1

    def test_replayed_records_of_an_earlier_epoch_are_known(self) -> None:
        records = [order(0, 5), _again(1, 1, 1, state="again")]
        self.apply(*records)
        assert self.apply(*records).replayed == 2
        with pytest.raises(StoreError, match="sequence 2 of epoch 1 there, and only 1 of epoch 1"):
            self.apply(_again(1, 2, 1))
