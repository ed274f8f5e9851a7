"""A consumer process of the chaos tests: it writes to one log, shared by all, what it works on."""

import asyncio
import os
import sys

from stores.units import UnitConsumer, UnitDelivery


async def main(broker: str, destination: str, group: str, token: str, log: str, work: str) -> None:
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(what: str, delivery: UnitDelivery) -> None:
        line = f"{what} {os.getpid()} {delivery.unit} {delivery.value.decode()}\n"
        os.write(file, line.encode())

    async def handle(delivery: UnitDelivery) -> None:
        note("start", delivery)
        await asyncio.sleep(float(work))
        if delivery.held:
            note("end", delivery)

    kafka = {"bootstrap_servers": broker}
    async with UnitConsumer(destination, group, kafka, token) as consumer:
        await consumer.run(handle)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
