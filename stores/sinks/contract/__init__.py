"""What every read-store sink has to do: a pytest class for your own sink to inherit.

    class TestMySink(SinkContract):
        @pytest.fixture(autouse=True)
        def _place(self, tmp_path):
            self.folder, self.turn = tmp_path, 0

        def open(self, tables=(), shadow=None):
            return MySink(self.folder / f"{self.turn}.db", tables, shadow)

        def forget(self):
            self.turn += 1

It needs pytest and hypothesis. Tests that do not apply to a sink are skipped with the reason.
"""

from stores.sinks.contract.dead import DeadContract, EachDeadContract
from stores.sinks.contract.epochs import EpochsContract
from stores.sinks.contract.example_records import (
    ORDERS,
    TOPIC,
    Rows,
    delete,
    order,
    upsert,
    value,
)
from stores.sinks.contract.fold import FoldContract
from stores.sinks.contract.kept_dead import KeptDeadContract
from stores.sinks.contract.names import NamesContract
from stores.sinks.contract.once import OnceContract
from stores.sinks.contract.rows import RowsContract
from stores.sinks.contract.shadow_tables import ShadowTablesContract
from stores.sinks.contract.tables import TablesContract
from stores.sinks.contract.types import TypesContract

__all__ = [
    "ORDERS",
    "TOPIC",
    "EachDeadContract",
    "Rows",
    "SinkContract",
    "delete",
    "order",
    "upsert",
    "value",
]


class SinkContract(
    RowsContract,
    OnceContract,
    EpochsContract,
    TablesContract,
    DeadContract,
    FoldContract,
    ShadowTablesContract,
    TypesContract,
    NamesContract,
    KeptDeadContract,
):
    """Inherit, write `open` and `forget`, and say what the sink is like.

    Each test gets an empty store. `rows` and `dead` read it through the sink unless you write them.

    Attributes:
        steps: names of the methods, in order, that a batch is written by: tests cut a batch off at
            each. Without them these tests are skipped.
        stepping: the class that has these methods; None for the sink itself.
        atomic: whether all that a batch writes is committed at once. Otherwise the last step
            commits it.
        cut_off_at: the steps at which a batch is cut off that comes again in other batches; None
            for all but the last.
        odd_tables: what tables are called whose names are odd.
        examples: how many examples hypothesis makes up for a test.
    """
