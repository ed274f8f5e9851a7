"""What a worker or a command of Faust's loads before it knows what it is to do."""

import subprocess
import sys

ASKED_FOR = "sqlalchemy", "asyncpg", "psycopg", "prometheus_client", "aiohttp.web", "pyspark"
"""Clients and servers that an app has only if its topology or its settings say so."""


APP = """
import sys
from topology import Inspector, Topology
from topology.faust import compile

shop = Topology("shop")
orders = shop.source("orders", inspector=Inspector(stream="order", sequence="version"))
shop.view("overview", of=orders, handler=lambda event: [])
app = compile(shop)
print(*{*ASKED_FOR} & {*sys.modules})
"""


def test_an_app_without_databases_and_pages_starts_without_their_libraries() -> None:
    code = f"ASKED_FOR = {ASKED_FOR}\n{APP}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
