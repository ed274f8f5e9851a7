"""Units of order: the messages of one name, which one consumer works on at a time, in order."""

from stores.units.client.administration import UnitAdministration
from stores.units.client.consumer import UnitConsumer
from stores.units.client.delivery import DeliveryLost, UnitDelivery
from stores.units.client.paths import PathAdministration
from stores.units.errors import (
    MemberUnavailable,
    SendRefused,
    StaleDelivery,
    UnitElsewhere,
    UnitError,
)
from stores.units.forward.agent import ForwardingAgent
from stores.units.forward.producer import StoredProducer, StoredUnit
from stores.units.kafka.producer import UnitProducer, UnitSender, UnitTransaction
from stores.units.kafka.records import OutgoingMessage
from stores.units.marks import create_marks, forget_marks, mark
from stores.units.naming import unit_by, unit_named, unit_per_session
from stores.units.paths.server import PathServer
from stores.units.paths.settings import PathSettings
from stores.units.queue import QueueSettings
from stores.units.server.forgetting import forget_subscriber
from stores.units.server.server import UnitServer
from stores.units.server.settings import ServerSettings

__all__ = [
    "DeliveryLost",
    "ForwardingAgent",
    "MemberUnavailable",
    "OutgoingMessage",
    "PathAdministration",
    "PathServer",
    "PathSettings",
    "QueueSettings",
    "SendRefused",
    "ServerSettings",
    "StaleDelivery",
    "StoredProducer",
    "StoredUnit",
    "UnitAdministration",
    "UnitConsumer",
    "UnitDelivery",
    "UnitElsewhere",
    "UnitError",
    "UnitProducer",
    "UnitSender",
    "UnitServer",
    "UnitTransaction",
    "create_marks",
    "forget_marks",
    "forget_subscriber",
    "mark",
    "unit_by",
    "unit_named",
    "unit_per_session",
]
