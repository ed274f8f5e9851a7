"""The TOML file of `sequitur alerts`: what is watched, the patterns, and their actions."""

import re
import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from topology.diagnostics.alerts import MOST_COUNT, AlertPattern
from topology.model.closest import closest
from topology.model.dotted import load
from topology.model.duration import seconds_of
from topology.model.errors import DeclarationError, first_of
from topology.model.names import checked_topic


def _seconds(given: object) -> float:
    return float(given) if isinstance(given, int | float) else seconds_of(str(given))


_LONGEST = 10_000 * 86_400
Seconds = Annotated[float, BeforeValidator(_seconds), Field(ge=0, le=_LONGEST, allow_inf_nan=False)]
Lasting = Annotated[Seconds, Field(gt=0)]
"""Seconds, or a duration such as "10s"."""
Topic = Annotated[str, BeforeValidator(checked_topic)]


class StrictTable(BaseModel):
    """A table of a file, in which nothing is that means nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Action(StrictTable):
    """What an alert triggers: one of an e-mail, a webhook, a command and a function.

    Attributes:
        smtp: host:port of a mail server.
        security: how the connection with it is made safe.
        sender: of the mail.
        to: whom it goes to.
        user: by which to log in there.
        password: the name of the variable that has the password.
        webhook: the URL that is posted to.
        token: the name of the variable that has the bearer token.
        command: a program and its arguments; it reads the alert as JSON.
        function: `module:function` of the alert as a dictionary, called in a thread.
        time_limit: seconds.
        most: how many alerts at most within `each`; what is beyond is counted.
        each: seconds.
    """

    smtp: str | None = None
    security: Literal["starttls", "tls", "none"] = "starttls"
    sender: str = Field(default="", alias="from")
    to: tuple[str, ...] = ()
    user: str = ""
    password: str = ""
    webhook: str | None = None
    token: str = ""
    command: tuple[str, ...] = ()
    function: str = ""
    time_limit: Lasting = 30.0
    most: int = Field(default=20, ge=1, le=10_000)
    each: Lasting = 3600.0

    @property
    def kind(self) -> str:
        """Which of the four it is."""
        kinds = {"e-mail": self.smtp, "webhook": self.webhook, "function": self.function}
        return next((kind for kind, given in kinds.items() if given), "command")


class Pattern(StrictTable):
    """See `topology.diagnostics.alerts.AlertPattern`."""

    name: str = Field(min_length=1, max_length=100)
    count: int = Field(default=1, ge=1, le=MOST_COUNT)
    within: Lasting = 300.0
    same: tuple[str, ...] = ()
    where: dict[str, str] = {}
    topics: tuple[Topic, ...] = ()
    quiet: Seconds = 3600.0
    actions: tuple[str, ...] = Field(min_length=1)


class AlertsConfig(StrictTable):
    """The file.

    Attributes:
        name: of the consumer group.
        topics: what is watched.
        pattern: the patterns.
        action: name → action.
    """

    name: str = "sequitur-alerts"
    topics: tuple[Topic, ...] = Field(min_length=1)
    pattern: tuple[Pattern, ...] = Field(min_length=1)
    action: dict[str, Action] = Field(min_length=1)

    @property
    def patterns(self) -> tuple[AlertPattern, ...]:
        """The patterns as the core takes them."""
        return tuple(
            AlertPattern(**{**dict(each), "topics": frozenset(each.topics)})
            for each in self.pattern
        )


def read_config(path: Path) -> AlertsConfig:
    """Read and check the file.

    Args:
        path: of the file.

    Raises:
        DeclarationError: what is wrong in it, and where.
        OSError: it cannot be read.
    """
    try:
        found = AlertsConfig.model_validate(tomllib.loads(path.read_text()))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DeclarationError(f"{path}: it is no TOML: {error}") from None
    except ValidationError as error:
        raise DeclarationError(f"{path}: {first_of(error)}") from None
    for name, action in found.action.items():
        check_action(f"{path}: action.{name}", action)
    names = [each.name for each in found.pattern]
    for each in found.pattern:
        if names.count(each.name) > 1:
            raise DeclarationError(f"{path}: pattern {each.name!r} exists twice; rename one")
        for topic in set(each.topics) - set(found.topics):
            raise DeclarationError(
                f"{path}: pattern {each.name!r} is about topic {topic!r}, which is not among the"
                " file's topics; add it there"
            )
        for name in set(each.actions) - set(found.action):
            raise DeclarationError(
                f"{path}: pattern {each.name!r} has the action {name!r}, which the file does not"
                f" have{closest(name, found.action)}"
            )
    return found


_ADDRESS = re.compile(r"\S+:[0-9]{1,5}")


def check_action(where: str, action: Action) -> None:
    """Raises DeclarationError for an action that cannot be carried out."""
    given = [
        each for each in (action.smtp, action.webhook, action.command, action.function) if each
    ]
    if len(given) != 1:
        raise DeclarationError(f"{where}: give one of smtp, webhook, command and function")
    if action.smtp and not _ADDRESS.fullmatch(action.smtp):
        raise DeclarationError(f"{where}: smtp is host:port, such as mail.example:587")
    if action.smtp and not (action.sender and action.to):
        raise DeclarationError(f"{where}: an e-mail needs from and to")
    if action.function:
        load(f"{where}: function", action.function, "a function")
    if action.webhook and not action.webhook.startswith(("http://", "https://")):
        raise DeclarationError(f"{where}: webhook is an http:// or https:// URL")
