"""Where a unit lives: by hash over slots, or by the path service. Pure: no I/O, no clock."""

from stores.units.routing.path_map import PathEntry, PathMap
from stores.units.routing.progress import SubscriberProgress
from stores.units.routing.route import Moving, Route
from stores.units.routing.slots import SLOTS, slot_of

__all__ = [
    "SLOTS",
    "Moving",
    "PathEntry",
    "PathMap",
    "Route",
    "SubscriberProgress",
    "slot_of",
]
