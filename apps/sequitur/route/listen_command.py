"""`sequitur route listen`: a listener of a router, with the actions that a file registers.

name = "guard"              # of the listener
destination = "large"
topic = "large-orders"      # of the destination, where ROUTER is no file that says it
format = "xml"              # that it reads; default: whatever comes
site = "oslo"               # default: the router's
unit = "desk"               # default: the router
lifetime = "30s"            # silent for so long, it expires
only = true                 # broadcasts alone, and not what goes to the destination
state = "sqlite:///done.db" # which actions are done, @FILE for a URL; default: FILE.db

[action.stop]
command = ["systemctl", "stop", "shop"]
"""

import logging
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import click
from pydantic import BeforeValidator, Field, ValidationError

from sequitur.alerts.actions import Actions
from sequitur.alerts.config import Action, Seconds, StrictTable, Topic, check_action
from sequitur.cli.options import FILE
from sequitur.cli.outcome import MISTAKES, cannot, log_to_stderr
from sequitur.cli.running import run_until_stopped
from sequitur.cli.statuses import DONE
from sequitur.route.control import control_of, controls
from sequitur.route.listener import Listener
from sequitur.route.router_file import address
from sequitur.route.table_places import text_of
from stores.db.engines import open_engine
from stores.db.urls import read_url
from topology.model.errors import DeclarationError, first_of
from topology.model.names import checked_name
from topology.model.printable import printable
from topology.routing import Endpoint, Listening, read_toml

logger = logging.getLogger("route")
Name = Annotated[str, BeforeValidator(lambda given: checked_name("name", given))]


class ListenerFile(StrictTable):
    """What a listener's file says; see above."""

    name: Name
    destination: Name
    topic: Topic | None = None
    format: str | None = None
    site: str = ""
    unit: str = ""
    lifetime: Seconds = 30.0
    only: bool = False
    state: str = ""
    action: dict[Name, Action] = Field(default_factory=dict)

    @property
    def endpoint(self) -> Endpoint:
        """It, in a new session. Raises DeclarationError."""
        own = self.lifetime, uuid4().hex, self.site, self.unit, tuple(self.action), self.only
        return Endpoint(self.name, self.destination, self.format, Listening(*own))


@click.command()
@controls
@click.argument("file", type=FILE)
@click.option("--check", is_flag=True, help="Check the file, and end.")
def listen(
    router: str, file: Path, check: bool, broker: str | None, kafka_properties: Path | None
) -> int:
    """Be a listener of ROUTER, and carry out what broadcasts trigger, as FILE says.

    An action runs once for a broadcast, whatever is started again; again only where a
    process was killed in the middle of it. Nothing runs that FILE does not register.
    """
    log_to_stderr()
    try:
        said = read_listener(file)
        endpoint, actions = said.endpoint, Actions(dict(said.action))
        if check:
            print(f"{file}: listener {said.name} of {said.destination}; {endpoint.listening}")
            return DONE
        topic, control = _topic(router, said), control_of(router, broker, kafka_properties)
        url = read_url(said.state) if said.state else f"sqlite:///{file.absolute()}.db"
        listener = Listener(endpoint, topic, control, actions, open_engine(url))
        return run_until_stopped(listener.run)
    except (*MISTAKES, ValueError) as error:
        return cannot(error, logger)


def read_listener(file: Path) -> ListenerFile:
    """Read and check the file. Raises DeclarationError, and OSError."""
    try:
        found = ListenerFile.model_validate(read_toml(text_of(file)))
    except ValidationError as error:
        raise DeclarationError(f"{file}: {first_of(error)}") from None
    except DeclarationError as error:
        raise DeclarationError(f"{file}: {error}") from None
    for name, action in found.action.items():
        check_action(f"{file}: action.{name}", action)
        if action.model_fields_set & {"most", "each"}:
            raise DeclarationError(
                f"{file}: action.{name}: most and each are of alerts; a listener's action runs for "
                "each broadcast"
            )
    return found


def _topic(router: str, said: ListenerFile) -> str:
    """The topic that it reads."""
    topic = said.topic
    if topic is None and router.endswith(".toml"):
        topic = address(Path(router), said.destination)
    if topic is None:
        shown = printable(said.destination)
        raise DeclarationError(f"topic: which one does destination {shown!r} have? give its name")
    return topic if said.name == said.destination else f"{topic}.{said.name}"
