"""A command on a router: what it names, how it reaches Kafka, and how it ends."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

from sequitur.cli.outcome import MISTAKES, cannot, log_to_stderr
from sequitur.kafka.login import worker_login
from sequitur.route.control import Control, control_of, controls
from sequitur.route.router_file import RouterFile, load_router
from topology.faust import App, compile
from topology.faust.inspection import CannotAnswer

logger = logging.getLogger("route")


@dataclass(frozen=True, slots=True)
class RouterAt:
    """ROUTER, a file or the control topic of a stage, and what its options say of Kafka."""

    name: str
    broker: str | None
    properties: Path | None

    def file(self) -> RouterFile:
        """What the file says."""
        return load_router(Path(self.name))

    def control(self) -> Control:
        """Where it is controlled."""
        return control_of(self.name, self.broker, self.properties)

    def app(self) -> App:
        """The app of its workers."""
        file = self.file()
        login = worker_login(self.broker or file.broker, self.properties)
        return compile(file.topology(), **login)


def in_one_line(command: Callable[..., int]) -> Callable[..., int]:
    """Let a command say in one line why it cannot be carried out."""

    @wraps(command)
    def run(**given: Any) -> int:
        log_to_stderr()
        try:
            return command(**given)
        except (*MISTAKES, CannotAnswer, ValueError) as error:
            return cannot(error, logger)

    return run


def on_router(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command its router, and let it say what is wrong in one line."""

    @controls
    @in_one_line
    @wraps(command)
    def run(router: str, broker: str | None, kafka_properties: Path | None, **given: Any) -> int:
        return command(RouterAt(router, broker, kafka_properties), **given)

    return run
