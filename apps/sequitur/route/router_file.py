"""The table `[router]` of a router's file, and the topology that the file describes.

[router]
name = "shop"               # of the topology, its group and its topics
site = "berlin"             # part of the ids of units of work
broker = "127.0.0.1:9092"   # SEQUITUR_BROKER unless given
partitions = 4              # of its sources, where their topics have to be made
trails = "log"              # or "topic": in NAME.router.trails, with the transaction
trail_function = "m:f"      # sees each trail, and returns what is written; None to drop it
attempts = 1                # of a message whose module or transformation fails
parks = false               # true: what fails is set aside with its stream, until it is redriven
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sequitur.kafka.login import kafka_login
from sequitur.route.loading import load_rules, read_router, reload_rules
from sequitur.route.transports import open_transports
from sequitur.route.unit_routing import STAGE
from topology.declaration.topology import Topology
from topology.model.address import read_brokers
from topology.model.dotted import load
from topology.model.errors import DeclarationError
from topology.model.names import checked_name
from topology.model.printable import printable


@dataclass(frozen=True, slots=True)
class RouterFile:
    """What `[router]` says.

    Attributes:
        path: of the file.
        name: the router's.
        site: where it is, empty where that is not said.
        broker: host:port, None for that of the environment.
        partitions: of its sources.
        to: destination → topic.
        more: `trails`, `trail_function`, `attempts` and `parks` of `Topology.route`.
    """

    path: Path
    name: str
    site: str
    broker: str | None
    partitions: int
    to: Mapping[str, str]
    more: Mapping[str, Any]

    def topology(self) -> Topology:
        """The topology with the stage that routes.

        Raises:
            DeclarationError: what is wrong in the rules, and where.
            OSError: a file cannot be read.
        """
        path, made = self.path, Topology(self.name)
        made.route(
            STAGE,
            rules=load_rules(path),
            partitions=self.partitions,
            to=self.to,
            reload=partial(reload_rules, path),
            **self.more,
        )
        return made


def load_router(path: Path) -> RouterFile:
    """Read what a router's file says of a router within Kafka; no table is loaded.

    Args:
        path: of the TOML file.

    Raises:
        DeclarationError: what is wrong, and where.
        OSError: the file cannot be read.
    """
    data = read_router(path)
    try:
        given = data.get("router", {})
        name = checked_name("router: name", given.get("name"))
        site, broker = _text(given, "site") or "", _broker(given)
        transports = data.get("transport", {})
        to = {}
        for kind in ("source", "destination"):
            for place, part in data.get(kind, {}).items():
                _within_kafka(f"{kind} {printable(place)!r}", part, transports)
                if kind == "destination" and "address" in part:
                    to[place] = part["address"]
        partitions = given.get("partitions", 4)
        more = {each: given[each] for each in ("trails", "attempts", "parks") if each in given}
        if (function := given.get("trail_function")) is not None:
            more["trail_function"] = load("router: trail_function", function, "a function")
        return RouterFile(path, name, site, broker, partitions, to, more)
    except DeclarationError as error:
        raise DeclarationError(f"{path}: {error}") from None


def units_control(path: Path) -> tuple[str, Mapping[str, Any]] | None:
    """The name of a router, and the login of the Kafka by which its units of work agree.

    Args:
        path: of the TOML file.

    Returns:
        None if it has no `control` in `[units]`.

    Raises:
        DeclarationError: what is wrong, and where.
        OSError: a file cannot be read.
    """
    data = read_router(path)
    units = data.get("units")
    control = units.get("control") if isinstance(units, Mapping) else None
    if control is None:
        return None
    kafka = _login_of(path, data, control)
    if kafka is None:
        raise DeclarationError(f"{path}: units: control: {printable(control)!r} is not of Kafka")
    return checked_name("router: name", data.get("router", {}).get("name")), kafka


def source_login(
    path: Path, topic: str, *, broker: str | None, properties: Path | None
) -> Mapping[str, Any]:
    """How to reach the Kafka that has a topic.

    Args:
        path: of the TOML file with the rules.
        topic: a source, or another one of the same Kafka as the file's first transport.
        broker: host:port; that of `[router]`, else the source's transport, else the environment,
            unless given.
        properties: how to log in, where no transport says it.

    Raises:
        DeclarationError: what is wrong, and where.
        OSError: a file cannot be read.
    """
    data = read_router(path)
    try:
        own = broker or _broker(data.get("router", {}))
    except DeclarationError as error:
        raise DeclarationError(f"{path}: {error}") from None
    transports = data.get("transport", {})
    source = data.get("source", {}).get(topic, {})
    name = source.get("transport", next(iter(transports), None))
    if own is None and properties is None and transports.get(name, {}).get("kind") == "kafka":
        return _login_of(path, data, name) or {}
    return kafka_login(own, properties)


def _login_of(path: Path, data: Mapping[str, Any], name: object) -> Mapping[str, Any] | None:
    """Of a transport; None if it is none of Kafka."""
    named = {each: part for each, part in data.get("transport", {}).items() if each == name}
    made = open_transports(named, path.parent).get(str(name))
    return None if made is None else made.kafka


def _text(given: Mapping[str, Any], name: str) -> str | None:
    if not isinstance(value := given.get(name, ""), str):
        raise DeclarationError(f"router: {name} = {printable(repr(value))}; give a text")
    return given.get(name)


def _broker(given: Mapping[str, Any]) -> str | None:
    """That of `[router]`; None where it names none."""
    broker = _text(given, "broker")
    try:
        return None if broker is None else read_brokers(broker)
    except ValueError as error:
        raise DeclarationError(f"router: broker: {error}") from None


def address(path: Path, destination: str) -> str | None:
    """The topic of a destination, which a listener hears; None if it is not there, or in no Kafka.

    Args:
        path: of the TOML file.
        destination: its name.

    Raises:
        DeclarationError: what is wrong, and where; or it is in another Kafka than `control`.
        OSError: a file cannot be read.
    """
    data = read_router(path)
    transports, part = data.get("transport", {}), data.get("destination", {}).get(destination)
    if part is None:
        return None
    where = part.get("transport", next(iter(transports), None))
    if where is not None and transports.get(where, {}).get("kind") != "kafka":
        return None
    units = data.get("units")
    control = units.get("control") if isinstance(units, Mapping) else None
    if control is not None:
        own, other = (transports.get(str(each), {}).get("broker") for each in (where, control))
        if kafka_login(own) != kafka_login(other):
            what, at = printable(destination), printable(where)
            raise DeclarationError(
                f"{path}: destination {what!r} is in transport {at!r}, and a listener hears by "
                f"that of control, {printable(control)!r}: set control to {at!r}, read its topic "
                "there by a client of your own, or give as topic a copy that you make here"
            )
    return str(part.get("address", destination))


def _within_kafka(what: str, part: Any, transports: Any) -> None:
    name = part.get("transport", next(iter(transports), None)) if isinstance(part, dict) else None
    kind = transports.get(name, {}).get("kind") if name is not None else "kafka"
    if kind != "kafka":
        raise DeclarationError(
            f"{what}: transport {printable(name)!r} is not of kind kafka; serve stays within "
            "Kafka, consume and publish go across transports"
        )
