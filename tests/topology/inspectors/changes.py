"""Change events as Debezium's connectors write them."""

from typing import Any

import orjson

from topology import Record

COLUMNS = {"id": 1004, "email": "annek@example.org", "version": 5}

POSTGRESQL = {
    "version": "2.7.3.Final",
    "connector": "postgresql",
    "name": "shop",
    "ts_ms": 1559033904863,
    "snapshot": "false",
    "db": "shop",
    "sequence": '["24022992","24023128"]',
    "ts_us": 1559033904863769,
    "ts_ns": 1559033904863769000,
    "schema": "public",
    "table": "customers",
    "txId": 556,
    "lsn": 24023128,
    "xmin": None,
}
MYSQL = {
    "version": "2.7.3.Final",
    "connector": "mysql",
    "name": "shop",
    "ts_ms": 1465581029100,
    "snapshot": "false",
    "db": "inventory",
    "sequence": None,
    "table": "customers",
    "server_id": 223344,
    "gtid": None,
    "file": "mysql-bin.000003",
    "pos": 484,
    "row": 0,
    "thread": 7,
    "query": None,
}
MARIADB = {**MYSQL, "connector": "mariadb", "file": "mariadb-bin.000010", "gtid": "0-112-53"}
SQLSERVER = {
    "version": "2.7.3.Final",
    "connector": "sqlserver",
    "name": "shop",
    "ts_ms": 1559729971739,
    "snapshot": "false",
    "db": "testDB",
    "schema": "dbo",
    "table": "customers",
    "change_lsn": "00000027:00000758:0005",
    "commit_lsn": "00000027:00000758:0006",
    "event_serial_no": "1",
}


def change(op: str, source: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """An envelope. fields: those of `source`, where they differ from the sample; and `before`,
    `after`, `transaction`."""
    row = dict(COLUMNS)
    envelope = {
        "before": row if op == "d" else None,
        "after": None if op == "d" else row,
        "op": op,
        "ts_ms": 1559033905000,
        "transaction": None,
    }
    envelope |= {
        name: fields.pop(name) for name in ("before", "after", "transaction") if name in fields
    }
    return {**envelope, "source": {**source, **fields}}


def with_schema(payload: Any) -> dict[str, Any]:
    """As Kafka Connect's JSON converter writes it unless told to leave the schema out."""
    return {"schema": {"type": "struct", "optional": False, "name": "Envelope"}, "payload": payload}


def record(value: Any, key: Any = COLUMNS["id"]) -> Record:
    """key: bytes, None, the primary key's value, or its columns."""
    if key is not None and not isinstance(key, bytes):
        key = orjson.dumps(key if isinstance(key, dict) else {"id": key})
    raw = value if value is None or isinstance(value, bytes) else orjson.dumps(value)
    return Record("shop.public.customers", 0, 0, key, raw)
