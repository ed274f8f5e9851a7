"""What a soak of delivery does to its parts."""

import random
import time

from apps.soak_delivery.fleet import (
    CONSUMERS,
    LEASE,
    ORDERS_SERVER,
    PARTS,
    PRODUCERS,
    RECEIVER,
    RELAYS,
    WAREHOUSE_SERVER,
    Fleet,
)

KILLS = {"producer": PRODUCERS, "relay": RELAYS, "receiver": (RECEIVER,), "consumer": CONSUMERS}
ZOMBIE = "relay paused, a zombie wakes"


def harms(fleet: Fleet) -> dict[str, int]:
    """Harm → how often it comes, in proportion."""
    found = {f"{what} killed": 4 for what in KILLS}
    found |= {f"{name} killed": 2 for name in fleet.servers}
    if fleet.broker is not None:
        found["broker killed"] = 1
    return found | {"both relays killed": 1, ZOMBIE: 1, "stopped": 2}


def harm(fleet: Fleet, chance: random.Random) -> str:
    """Do one thing, after some time of work; what was killed runs again then."""
    # Mostly in the middle of work, and sometimes before the last harm is mended.
    if chance.random() < 0.7:
        fleet.progress(20)
    time.sleep(chance.uniform(0.0, 0.6))
    fleet.supervise()
    choices = harms(fleet)
    what = chance.choices([*choices], [*choices.values()])[0]
    if what == "broker killed":
        fleet.kill_broker()
    elif what in (f"{ORDERS_SERVER} killed", f"{WAREHOUSE_SERVER} killed"):
        fleet.kill_server(what.removesuffix(" killed"))
    elif what == ZOMBIE:
        fleet.pause(chance.choice(RELAYS), LEASE + 0.5)
    elif what == "both relays killed":
        for name in RELAYS:
            fleet.kill(name)
        for name in RELAYS:
            fleet.start(name)
    elif what == "stopped":
        name = chance.choice(PARTS)
        fleet.stop(name)
        fleet.start(name)
    else:
        name = chance.choice(KILLS[what.removesuffix(" killed")])
        fleet.kill(name)
        fleet.start(name)
    return what
