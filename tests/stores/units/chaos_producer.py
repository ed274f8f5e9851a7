"""A producer process of the chaos tests: each unit gets its numbers in order, whatever fails."""

import asyncio
import sys

from stores.units import UnitProducer
from stores.units.errors import SendRefused


async def main(broker: str, destination: str, token: str, units: str, each: str) -> None:
    kafka = {"bootstrap_servers": broker}
    async with UnitProducer(destination, kafka, routing="path", token=token) as producer:

        async def send(name: str) -> None:
            for number in range(int(each)):
                while True:
                    try:
                        await producer.unit(name).send(b"%d" % number)
                        break
                    except SendRefused as error:
                        print(error, flush=True)
                await asyncio.sleep(0.4)

        await asyncio.gather(*(send(name) for name in units.split(",")))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
