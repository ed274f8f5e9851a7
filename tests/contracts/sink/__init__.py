"""What every read-store sink has to do. A backend's test class inherits `SinkContract`."""

from tests.contracts.sink.dead import DeadContract, EachDeadContract
from tests.contracts.sink.epochs import EpochsContract
from tests.contracts.sink.fold import FoldContract
from tests.contracts.sink.kept_dead import KeptDeadContract
from tests.contracts.sink.names import NamesContract
from tests.contracts.sink.once import OnceContract
from tests.contracts.sink.records import ORDERS, TOPIC, Rows, delete, order, upsert, value
from tests.contracts.sink.rows import RowsContract
from tests.contracts.sink.shadow_tables import ShadowTablesContract
from tests.contracts.sink.tables import TablesContract
from tests.contracts.sink.types import TypesContract

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
    """Inherit, and write what `Store` asks for; each test gets an empty store."""
