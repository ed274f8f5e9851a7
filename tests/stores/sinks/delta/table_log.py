"""What the log of a Delta table says, read without Spark: a query takes it a second or two."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq

_PLAIN = {"long", "string", "double", "boolean"}
_STORED = "delta.columnMapping.physicalName"
"""What a column is called in the files, if not by its name."""


def actions(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """All that was done to a table, in order: ("add", …). Its first commit has to be there."""
    commits = sorted((folder / "_delta_log").glob("*.json"))
    assert [int(commit.stem) for commit in commits] == list(range(len(commits)))
    for commit in commits:
        for line in commit.read_text().splitlines():
            ((name, action),) = json.loads(line).items()
            yield name, action


def plain_rows(folder: Path) -> tuple[list[dict[str, Any]], dict[str, str]] | None:
    """A table's rows, by column, and its columns' comments; None where it takes Spark to say."""
    files: dict[str, None] = {}
    fields: list[dict[str, Any]] = []
    for name, action in actions(folder):
        if name == "add":
            assert action.get("deletionVector") is None
            files[unquote(action["path"])] = None
        elif name == "remove":
            del files[unquote(action["path"])]
        elif name == "metaData":
            fields = json.loads(action["schemaString"])["fields"]
    if any(field["type"] not in _PLAIN for field in fields):
        return None
    stored = {f["metadata"].get(_STORED, f["name"]): f["name"] for f in fields}
    rows = [
        {stored[name]: value for name, value in row.items()}
        for file in files
        for row in pq.ParquetFile(folder / file).read().to_pylist()
    ]
    return rows, {f["name"]: f["metadata"].get("comment", "") for f in fields}
