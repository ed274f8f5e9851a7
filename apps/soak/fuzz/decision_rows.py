"""The journal of two-phase transactions: lines that were damaged are kept, and stop nobody."""

import tempfile
from functools import cache
from typing import Any

from hypothesis import strategies as st
from sqlalchemy import Engine, create_engine, event, text

from soak.fuzz.log_rows import COLUMN_VALUES
from stores.two_phase.decision_log import DecisionLog
from stores.two_phase.recovery import recover

Change = tuple[int, str, Any]


@cache
def _engine() -> Engine:
    """A database in a file, since recovery has connections of its own; it ends with the process."""
    folder = tempfile.TemporaryDirectory(prefix="sequitur-fuzz-")
    engine = create_engine(f"sqlite:///{folder.name}/decisions.sqlite")
    event.listen(engine, "close", lambda *_: folder)  # keeps the folder
    return engine


class DecisionRows:
    """Four decisions, of which some columns were changed by hand."""

    name = "decision-rows"

    def strategy(self) -> st.SearchStrategy[list[Change]]:
        """Up to three changes."""
        columns = st.sampled_from(["participants", "begun_at", '"transaction"'])
        return st.lists(st.tuples(st.integers(0, 3), columns, COLUMN_VALUES), max_size=3)

    def run(self, input: list[Change]) -> None:
        """Recovery goes through all of them, and forgets none but what is done with."""
        engine = _engine()
        log = DecisionLog(engine)
        with engine.begin() as connection:
            connection.execute(text("DELETE FROM sequitur_decisions"))
            for at in range(4):
                log.write(connection, f"t{at}", [])
            connection.execute(text("UPDATE sequitur_decisions SET begun_at = 1"))
            for at, column, value in input:
                sql = f"UPDATE OR IGNORE sequitur_decisions SET {column} = :value"
                connection.execute(text(f"{sql} WHERE rowid = :at"), {"value": value, "at": at + 1})
        before = len(log.lines())
        found = recover(log, {})
        assert len(log.lines()) == before - found.forgotten
        untouched = 4 - len({at for at, *_ in input})
        assert found.forgotten >= untouched
