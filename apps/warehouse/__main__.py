"""Orders in one SQLite file, the warehouse in another, and a relay over HTTP between them.

    python -m warehouse --orders 500

places, changes and cancels orders while all of it runs, with some transactions rolled back and some
messages failing at first; then compares the two files. The exit status is 0 if they agree, 1 if
they differ, 2 if it could not be tried.
"""

import argparse
import asyncio
import logging
import os
import random
import secrets
import sys
import tempfile
import time
from pathlib import Path
from threading import Event, Thread

from sqlalchemy import Connection

from sequitur.cli.outcome import MISTAKES, cannot, log_to_stderr
from sequitur.cli.statuses import BAD_NEWS, DONE
from sequitur.inbox.server import serve
from sequitur.local.ports import HOST, free_port
from sequitur.relay.http_link import HttpLink
from sequitur.relay.relay import Relay
from stores.db.engines import open_engine
from stores.inbox.commands import counts
from stores.inbox.consumer import run_consumer
from stores.inbox.inbox import Inbox
from stores.locks.lease import Lease
from stores.message import Message
from warehouse import stock
from warehouse.orders import Orders

log = logging.getLogger("warehouse")

ITEMS = ("bolts", "nuts", "washers")


def trade(orders: Orders, number: int, chance: random.Random) -> int:
    """Place so many orders and change some; returns how many transactions were rolled back."""
    placed: list[str] = []
    undone = 0
    while len(placed) < number:
        try:
            with orders.engine.begin() as connection:
                if placed and chance.random() < 0.5:
                    _alter(orders, connection, chance.choice(placed), chance)
                else:
                    order = f"A-{len(placed) + 1}"
                    item, amount = chance.choice(ITEMS), chance.randrange(1, 100)
                    orders.place(connection, order, item, amount)
                    placed.append(order)
                if chance.random() < 0.1:
                    raise RuntimeError("the customer's card was refused")
        except RuntimeError:
            undone += 1
            if placed and placed[-1] not in orders.all():
                placed.pop()
    return undone


def _alter(orders: Orders, connection: Connection, order: str, chance: random.Random) -> None:
    if chance.random() < 0.2:
        orders.cancel(connection, order)
    else:
        orders.change(connection, order, chance.randrange(1, 100))


async def run(folder: Path, number: int, seed: int) -> list[str]:
    """Run it all; returns how the two files differ."""
    chance = random.Random(seed)
    orders = Orders(open_engine(f"sqlite:///{folder}/orders.sqlite"))
    orders.make()
    warehouse = open_engine(f"sqlite:///{folder}/warehouse.sqlite")
    stock.make(warehouse)
    inbox = Inbox(warehouse, "warehouse", backoff=0.05)
    failing = random.Random(seed)

    def handle(connection: Connection, message: Message) -> None:
        stock.handle(connection, message)
        if failing.random() < 0.02:
            raise RuntimeError("a shelf was locked; the message comes again")

    ended, stopped, port, token = Event(), asyncio.Event(), free_port(), secrets.token_urlsafe(24)
    server = asyncio.create_task(serve(inbox, token, HOST, port, stopped))
    link = HttpLink("orders", f"http://{HOST}:{port}", token)
    lease = Lease(orders.engine, "relay orders", f"{os.getpid()}")
    relay = asyncio.create_task(Relay(orders.engine, orders.log, link, lease).run(stopped))
    consumer = Thread(target=run_consumer, args=(inbox, handle, ended))
    consumer.start()
    try:
        undone = await asyncio.to_thread(trade, orders, number, chance)
        wanted = orders.all()
        print(f"{len(wanted)} orders, {sum(o[2] for o in wanted.values())} messages", end=", ")
        print(f"{undone} transactions rolled back")
        until = time.monotonic() + 60
        while stock.differences(wanted, warehouse) and time.monotonic() < until:
            await asyncio.sleep(0.1)
        print(counts(inbox))
    finally:
        ended.set()
        stopped.set()
        await asyncio.gather(server, relay)
        await asyncio.to_thread(consumer.join)
    return stock.differences(wanted, warehouse)


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m warehouse",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--orders", type=int, default=200, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--folder", type=Path, help="for the two files; default: a temporary one")
    options = parser.parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory(prefix="sequitur-warehouse-") as temporary:
            folder = options.folder or Path(temporary)
            wrong = asyncio.run(run(folder, options.orders, options.seed))
    except MISTAKES as error:
        log_to_stderr()
        return cannot(error, log)
    for line in wrong[:20]:
        print(line)
    print(f"{'the warehouse agrees with the orders' if not wrong else 'they differ'}")
    return BAD_NEWS if wrong else DONE


if __name__ == "__main__":
    sys.exit(main())
