"""The worked example: the two files agree, whatever is rolled back and whatever fails at first."""

from pathlib import Path

import pytest
from sqlalchemy import text

from stores.db.engines import open_engine
from stores.message import Message
from warehouse import stock
from warehouse.__main__ import main
from warehouse.orders import Orders


def test_the_warehouse_agrees_with_the_orders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--orders", "60", "--folder", str(tmp_path), "--seed", "3"]) == 0
    said = capsys.readouterr().out
    assert "the warehouse agrees with the orders" in said
    orders = Orders(open_engine(f"sqlite:///{tmp_path}/orders.sqlite"))
    warehouse = open_engine(f"sqlite:///{tmp_path}/warehouse.sqlite")
    assert len(orders.all()) == 60
    assert stock.differences(orders.all(), warehouse) == []
    # And what the comparison is worth.
    with warehouse.begin() as connection:
        connection.execute(text("UPDATE reserved SET amount = amount + 1 WHERE order_id = 'A-1'"))
    assert len(stock.differences(orders.all(), warehouse)) == 2


def test_a_message_that_cannot_be_the_next_is_refused(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path}/warehouse.sqlite")
    stock.make(engine)
    placed = Message("orders", "A-1", 1, "Placed", b'{"item": "bolts", "amount": 3}')
    with engine.begin() as connection:
        stock.handle(connection, placed)
    for wrong in (placed, Message("orders", "A-1", 3, "Changed", b'{"amount": 4}')):
        with pytest.raises(stock.OutOfOrder), engine.begin() as connection:
            stock.handle(connection, wrong)
    engine.dispose()
