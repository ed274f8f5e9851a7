"""What Spark and Delta Lake say of a value that a table does not take."""

import re
from collections.abc import Iterator

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

_REFUSED = frozenset(
    {
        "ARITHMETIC_OVERFLOW",
        "CAST_INVALID_INPUT",
        "CAST_OVERFLOW",
        "CAST_OVERFLOW_IN_TABLE_INSERT",
        "DATATYPE_MISMATCH",
        "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE",
        "DELTA_EXCEED_CHAR_VARCHAR_LIMIT",
        "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
        "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
        "EXCEED_LIMIT_LENGTH",
        "NUMERIC_VALUE_OUT_OF_RANGE",
        "USER_RAISED_EXCEPTION",
    }
)
_CONDITION = re.compile(r"\[([A-Z_]+)")
_STATEMENT = re.compile(r"\n== SQL|; line \d+ pos")
"""What a message goes on with: the part of the statement that failed, or its plan."""
_CAUSES = 20
"""Errors that are looked through; that of a task is the cause of the statement's."""


def refusal(error: Exception) -> str | None:
    """Why a value was refused; None where an error is about anything else."""
    for text in _messages(error):
        condition = _CONDITION.match(text)
        if condition is not None and condition[1] in _REFUSED:
            return _STATEMENT.split(text, maxsplit=1)[0].strip()
    return None


def _messages(error: Exception) -> Iterator[str]:
    """What an error says, and then its causes."""
    cause = None
    if isinstance(error, Py4JJavaError):
        cause = error.java_exception
    elif isinstance(error, PySparkException):
        yield str(error)
        cause = getattr(error, "_origin", None)
    for _ in range(_CAUSES):
        if cause is None:
            return
        yield str(cause.getMessage())
        cause = cause.getCause()
