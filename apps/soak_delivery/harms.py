"""What a soak of delivery does to its parts."""

import random
import time

from soak_delivery.fleet import (
    CONSUMERS,
    LEASE,
    PARTS,
    PRODUCERS,
    RECEIVER,
    RELAYS,
    RESOLVED,
    Fleet,
)

KILLS = {"producer": PRODUCERS, "relay": RELAYS, "receiver": (RECEIVER,), "consumer": CONSUMERS}
ZOMBIE = "relay paused, a zombie wakes"
SIDES = {"producers": PRODUCERS, "consumers": CONSUMERS}
"""Who is killed on a side, so that a command resolves what they leave in doubt."""


def harms(fleet: Fleet) -> dict[str, int]:
    """Harm → how often it comes, in proportion."""
    found = {f"{what} killed": 4 for what in KILLS}
    found |= {f"{name} killed": 2 for name in fleet.servers}
    if fleet.broker is not None:
        found["broker killed"] = 1
    if fleet.apart:
        found |= {f"{side} killed, resolved by command": 2 for side in SIDES}
    return found | {"both relays killed": 1, ZOMBIE: 1, "stopped": 2}


def harm(fleet: Fleet, chance: random.Random) -> str:
    """Do one thing, after some time of work; what was killed runs again then."""
    # Mostly in the middle of work, and sometimes before the last harm is repaired.
    if chance.random() < 0.7:
        fleet.progress(20)
    time.sleep(chance.uniform(0.0, 0.6))
    fleet.supervise()
    choices = harms(fleet)
    what = chance.choices([*choices], [*choices.values()])[0]
    if what == "broker killed":
        fleet.kill_broker()
    elif (server := what.removesuffix(" killed")) in fleet.servers:
        fleet.kill_server(server)
    elif (side := what.partition(" ")[0]) in SIDES:
        _resolve(fleet, side)
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


def _resolve(fleet: Fleet, side: str) -> None:
    for name in SIDES[side]:
        fleet.kill(name)
    if not fleet.resolve(side, RESOLVED):
        raise RuntimeError(f"what {side} left in doubt is not resolved; see {fleet.folder}")
    for name in SIDES[side]:
        fleet.start(name)
