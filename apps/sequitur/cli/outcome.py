"""How the processes end: errors as one line, and the status that goes with them."""

import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace

from aiokafka.errors import KafkaError
from sqlalchemy.exc import SQLAlchemyError

from sequitur.cli.statuses import CANNOT, DONE
from sequitur.kafka.options import OptionError, kafka_options
from sequitur.kafka.options import without_secrets as without_options
from sequitur.local.home import LocalError
from stores.db.urls import UrlError, said, without_secrets
from stores.inbox.message import InboxError
from stores.locks.lease import LeaseLost
from stores.outbox.message import MessageLogError
from stores.replay.errors import ReplayError
from stores.sinks import StoreError
from stores.two_phase.decision_log import TwoPhaseError
from topology.model.dotted import extra_of
from topology.model.errors import DeclarationError

_NONE: Mapping[str, str] = {}

MISTAKES = (
    *(OptionError, UrlError, DeclarationError, StoreError, MessageLogError, InboxError),
    *(TwoPhaseError, LeaseLost, SQLAlchemyError, KafkaError, OSError, ModuleNotFoundError),
    *(LocalError, ReplayError),
)
"""Errors whose text is for whoever runs a process; any other one is a fault of ours."""


def cannot(error: BaseException, log: logging.Logger, *urls: str | None) -> int:
    """Say in one line why it could not be done, without the URLs' secrets; return the status."""
    more = extra_of(error.name or "") if isinstance(error, ModuleNotFoundError) else ""
    log.error("%s%s", said(error, *filter(None, urls)), more)
    return CANNOT


def outcome_of(
    run: Callable[[SimpleNamespace, Mapping[str, str]], int],
    options: SimpleNamespace,
    log: logging.Logger,
) -> int:
    """Run a job of Spark, which is given its options and those of Kafka; return the status."""
    try:
        kafka = kafka_options(options.kafka_option, options.kafka_properties)
        log_to_stderr([options.store], kafka)
        return run(options, kafka)
    except KeyboardInterrupt:  # while Spark starts, the signal is Spark's
        return DONE
    except MISTAKES as error:
        log_to_stderr([options.store])
        return cannot(error, log, options.store)


class _Formatter(logging.Formatter):
    """Lines, tracebacks included, without secrets."""

    def __init__(self, hide: Callable[[str], str]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._hide = hide

    def format(self, record: logging.LogRecord) -> str:
        return self._hide(super().format(record))


_given: dict[str, None] = {}
"""The URLs that commands of this process were about."""


def without_given(text: str) -> str:
    """What a command of this process says, without the secrets of URLs that it was about."""
    return without_secrets(text, _given)


def log_to_stderr(urls: Iterable[str | None] = (), kafka: Mapping[str, str] = _NONE) -> None:
    """Log from INFO on, whoever logs, without what these URLs and options keep secret."""
    given = [url for url in urls if url]
    _given.update(dict.fromkeys(given))
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        _Formatter(lambda text: without_secrets(without_options(text, kafka), given))
    )
    logging.basicConfig(handlers=[handler], level=logging.INFO)
