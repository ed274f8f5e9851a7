"""Debezium change events, as the streams of a database's transactions."""

import re
from typing import Any

from topology.inspectors.debezium_change import KINDS, change_of
from topology.inspectors.inspector import Found, Inspect, Normalised
from topology.inspectors.normalise import sequence_number
from topology.inspectors.stream_ids import StreamIds
from topology.model.errors import DeclarationError, Malformed
from topology.model.event import Message

_POSTGRES_ID = re.compile(r"([0-9]+):[0-9]+")


class DebeziumTransactions(Normalised):
    """Makes each transaction that Debezium reports a stream; its changes count from 1, contiguous.

    The connector needs `provide.transaction.metadata=true`. The stream is the connector's name, the
    transaction's id and, with `by_table`, the table's name. Snapshots belong to no transaction:
    they are unknown.

    Args:
        by_table: one stream per transaction and table, in the order of the changes in that table.
            Without it, all tables that the connector captures must feed the source; else there are
            gaps.
    """

    def __init__(self, *, by_table: bool = False) -> None:
        if not isinstance(by_table, bool):
            raise DeclarationError(
                f"DebeziumTransactions(by_table={by_table!r}): use True or False"
            )
        self.by_table = by_table
        self.stream_ids = StreamIds(fields=4 if by_table else 2)

    def compile(self) -> Inspect:
        """Return the inspector as one function of a message."""
        by_table, joined = self.by_table, self.stream_ids.joined
        order = "data_collection_order" if by_table else "total_order"

        def inspect(message: Message) -> Found | None:
            change = change_of(message)
            if change is None:
                return None
            source, transaction = change["source"], change.get("transaction")
            if transaction is None and change["op"] == "r":
                return None
            if not isinstance(transaction, dict):
                raise Malformed(
                    "the change event has no 'transaction'; "
                    "set provide.transaction.metadata=true in the connector"
                )
            ids = [source.get("name"), _id(transaction.get("id"), source)]
            if by_table:
                ids += [source.get("schema") or source.get("db"), source.get("table")]
            number = sequence_number(transaction.get(order), "number")
            return joined(ids), number, KINDS[change["op"]], change

        return inspect

    def __repr__(self) -> str:
        return f"DebeziumTransactions(by_table={self.by_table})"


def _id(value: Any, source: dict[str, Any]) -> Any:
    """PostgreSQL's ids are the transaction's number and the LSN of the change: the number is it."""
    if source.get("connector") == "postgresql" and isinstance(value, str):
        found = _POSTGRES_ID.fullmatch(value)
        return value if found is None else found[1]
    return value
