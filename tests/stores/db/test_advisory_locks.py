"""The numbers of advisory locks are in one place, each once."""

import re
from pathlib import Path

import pytest

from stores.db.advisory_locks import AdvisoryLock, ReadStoreLock, reader_lock

STORES = Path(__file__).parents[3] / "stores"


@pytest.mark.parametrize("locks", [AdvisoryLock, ReadStoreLock])
def test_no_number_is_used_twice(locks: type[AdvisoryLock] | type[ReadStoreLock]) -> None:
    assert len(locks.__members__) == len(set(locks))


def test_the_reader_s_lock_of_a_log_is_none_of_the_others() -> None:
    assert reader_lock(".sequitur") > max(AdvisoryLock)


def test_no_other_module_has_a_number_of_its_own() -> None:
    taking = [
        file.name
        for file in STORES.rglob("*.py")
        if re.search(r"advisory\w*\(\s*\d|0x5E9", file.read_text())
    ]
    assert taking == ["advisory_locks.py"]
