"""How a source's sequences order a stream; each order has a file of its own."""

from topology.declaration.orders.contiguous_order import Contiguous, contiguous
from topology.declaration.orders.linked_order import Linked, linked
from topology.declaration.orders.monotonic_order import Monotonic, monotonic
from topology.declaration.orders.own_order import Order, OwnOrder
from topology.declaration.orders.stream_order import StreamOrder

__all__ = [
    "Contiguous",
    "Linked",
    "Monotonic",
    "Order",
    "OwnOrder",
    "StreamOrder",
    "contiguous",
    "linked",
    "monotonic",
]
