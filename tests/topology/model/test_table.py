"""Tables as views declare them."""

import pickle
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from topology import DeclarationError, Table, decimal


def test_a_table_keeps_its_columns_and_their_order() -> None:
    columns: dict[str, type] = {"origin": str, "minutes": float, "on_time": bool}
    table = Table("departure_board", key={"flight": int, "leg": int}, columns=columns)
    columns["later"] = str

    assert list(table.key) == ["flight", "leg"]
    assert list(table.columns.items()) == [("origin", str), ("minutes", float), ("on_time", bool)]


def test_tables_can_be_compared_and_hashed() -> None:
    one, two = (Table("t", {"id": int}, {"n": int}) for _ in range(2))
    assert one == two
    assert len({one, two}) == 1
    assert one != Table("t", {"id": str}, {"n": int})


@pytest.mark.parametrize("name", ["", None, 5, "x" * 64, "ä" * 32, "a\0b", "\ud800", "_own"])
def test_a_bad_table_name_is_named(name: Any) -> None:
    with pytest.raises(DeclarationError, match="table") as error:
        Table(name, {"id": int}, {})
    assert repr(name) in str(error.value)


@pytest.mark.parametrize("column", ["", None, 5, "x" * 64, "a\0b"])
@pytest.mark.parametrize("part", ["key", "columns"])
def test_a_bad_column_name_is_named_with_its_table(part: str, column: Any) -> None:
    parts = {"key": {"id": int}, "columns": {}} | {part: {column: int}}
    with pytest.raises(DeclarationError, match="table 'rows'") as error:
        Table("rows", **parts)
    assert repr(column) in str(error.value)


@pytest.mark.parametrize("kind", [set, tuple, "int", None, object, complex])
def test_a_type_that_no_read_store_has_is_named(kind: Any) -> None:
    with pytest.raises(DeclarationError, match=r"'rows': column 'n'.*str, int, float, bool, "):
        Table("rows", {"id": int}, {"n": kind})


def test_a_table_without_a_key() -> None:
    with pytest.raises(DeclarationError, match="'rows': the key is empty"):
        Table("rows", {}, {"n": int})


@pytest.mark.parametrize("columns", [["id"], "id", None, 5])
def test_columns_that_are_no_mapping(columns: Any) -> None:
    with pytest.raises(DeclarationError, match="'rows'"):
        Table("rows", {"id": int}, columns)


def test_one_name_for_a_key_and_a_column() -> None:
    with pytest.raises(DeclarationError, match=r"'rows'.*'id'.*'ID'"):
        Table("rows", {"id": int}, {"ID": int})


def test_a_table_of_every_type_goes_from_process_to_process() -> None:
    columns: dict[str, Any] = {
        "n": decimal(18, 2),
        "m": Decimal,
        "at": datetime,
        "doc": dict,
        "raw": bytes,
    }
    table = Table("t", {"id": int}, columns)
    assert pickle.loads(pickle.dumps(table)) == table
