"""Texts of SQLite that are no UTF-8: it keeps any bytes as one."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection


@contextmanager
def any_text(connection: Connection) -> Iterator[None]:
    """Let SQLite return texts that are no UTF-8: one would fail all that is read with it.

    Their bytes that are none are lone surrogates.
    """
    if connection.dialect.name != "sqlite":
        yield
        return
    driver: Any = connection.connection.driver_connection
    before, driver.text_factory = driver.text_factory, _tolerant
    try:
        yield
    finally:
        driver.text_factory = before


def _tolerant(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")
