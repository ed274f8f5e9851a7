"""Records of a view's output topic for a materializer, and the table that they come to."""

from typing import Any

import orjson
from confluent_kafka import Producer

PARTITIONS = 2
STREAMS = 40
TABLE = "board"


class Views:
    """Writes output records in transactions, and folds the committed ones into plain tables."""

    def __init__(self, broker: str, topic: str) -> None:
        self.topic = topic
        self.producer = Producer(
            {"bootstrap.servers": broker, "transactional.id": topic, "linger.ms": 5}
        )
        self.producer.init_transactions(30)
        self.sequences = [0] * STREAMS
        self.rows: dict[str, tuple[int, str | None, str | None]] = {}
        self.sent: list[tuple[int, bytes]] = []
        self.committed = 0

    def write(self, transactions: int, size: int = 100) -> None:
        """Commit that many transactions; abort another one after each third."""
        for number in range(transactions):
            self._transaction(size, commit=True)
            if number % 3 == 0:
                self._transaction(size // 4, commit=False)

    def _transaction(self, size: int, commit: bool) -> None:
        sequences, rows = list(self.sequences), dict(self.rows)
        self.producer.begin_transaction()
        for at in range(size):
            if commit and self.sent and at % 17 == 5:
                self._produce(*self.sent[-1 - at % len(self.sent) % 50])  # an old record again
                continue
            stream = (self.committed * 7 + at) % STREAMS
            sequences[stream] += 1
            sequence = sequences[stream]
            name = f"s{stream}"
            key = {"stream": name}
            changes: list[Any]
            if sequence % 10 == 9:
                changes = [{"op": "delete", "table": "board", "key": key}]
                rows.pop(name, None)
            else:
                column = "odd" if sequence % 2 else "even"
                text = f"{sequence} {'committed' if commit else 'aborted'}"
                values = {"last": sequence, column: text}
                changes = [{"op": "upsert", "table": "board", "key": key, "values": values}]
                _, odd, even = rows.get(name, (0, None, None))
                rows[name] = (sequence, text, even) if sequence % 2 else (sequence, odd, text)
            body = {"view": "board", "stream": name, "sequence": sequence, "changes": changes}
            self._produce(stream % PARTITIONS, orjson.dumps(body))
            if commit:
                self.sent.append((stream % PARTITIONS, orjson.dumps(body)))
        self.producer.flush(30)
        if commit:
            self.producer.commit_transaction(30)
            self.sequences, self.rows = sequences, rows
            self.committed += size
        else:
            self.producer.abort_transaction(30)

    def _produce(self, partition: int, body: bytes) -> None:
        self.producer.produce(self.topic, body, partition=partition)

    def board(self) -> list[dict[str, Any]]:
        """The rows that the table has to have, in key order, without nulls."""
        columns = ("last", "odd", "even")
        rows = ((name, zip(columns, row, strict=True)) for name, row in sorted(self.rows.items()))
        return [{"stream": n, **{c: v for c, v in row if v is not None}} for n, row in rows]
