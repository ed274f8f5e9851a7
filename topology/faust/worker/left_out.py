"""Records of a changelog that no engine wrote: who reads it leaves them out, and says so."""

from typing import Any

from mode import get_logger

from topology.engine.state.foreign_rows import foreign
from topology.model.printable import printable

logger = get_logger(__name__)


def left_out(record: Any) -> bool:
    """Whether a record of a changelog is none of an engine's; it is told then."""
    if reason := foreign(record.key, record.value):
        logger.warning(
            "%s/%d at %d: the record with key %s is left out: no engine wrote it: %s; see who "
            "may write to this topic", record.topic, record.partition, record.offset,
            printable(record.key), printable(reason),
        )  # fmt: skip
    return bool(reason)
