"""The databases of a shop and its log, and producers that are killed."""

import signal
import time
from multiprocessing import get_context
from multiprocessing.process import BaseProcess

from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError

from soak_capture.producer import PLACED, differences, engine_of, make_tables, produce
from stores.two_phase.coordinator import Coordinator

ORDERS = 300
"""That a producer makes if it is not killed."""

# Not from this process, which may have threads; from one that has imported what producers need.
_FORKING = get_context("forkserver")
_FORKING.set_forkserver_preload(["soak_capture.producer"])


class Place:
    """form: `one` database for both, at `shop`, or `two`."""

    def __init__(self, form: str, shop: str, log: str) -> None:
        self.form, self.urls = form, (shop, log)
        self.shop = engine_of(shop)
        self.log = self.shop if form == "one" else engine_of(log)
        make_tables(self.shop, self.log)

    def start(self, seed: int, kill: int | str, orders: int = ORDERS) -> BaseProcess:
        """Start a producer that kills itself at that step; see `producer.produce`."""
        arguments = (self.form, *self.urls, seed, str(kill), orders)
        process = _FORKING.Process(target=produce, args=arguments, daemon=True)
        process.start()
        return process

    def produce(self, seed: int, kill: int | str) -> int:
        """Run a producer to its end; returns its status."""
        process = self.start(seed, kill)
        process.join(120)
        if process.exitcode not in (0, -signal.SIGKILL):
            process.kill()
            raise RuntimeError(f"a producer ended with {process.exitcode}")
        return process.exitcode

    def orders(self) -> int:
        """How many there are, as soon as the shop answers."""
        while True:
            try:
                with self.shop.connect() as connection:
                    found = connection.execute(select(func.count()).select_from(PLACED))
                    return int(found.scalar_one())
            except SQLAlchemyError:
                time.sleep(0.02)

    def wrong(self) -> list[str]:
        """What is wrong once the next producer has started; nothing may run or be away."""
        self.close()  # connections of before a server was killed
        if self.form == "two":
            coordinator = Coordinator(self.shop, {"log": self.log})
            found = coordinator.recover()
            coordinator.close()
            if found.open or found.unreachable:
                return [f"still in doubt: {found.open}, {found.unreachable}"]
        return differences(self.shop, self.log)

    def close(self) -> None:
        """Let go of its connections."""
        self.shop.dispose()
        self.log.dispose()
