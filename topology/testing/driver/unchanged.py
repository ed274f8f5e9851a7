"""Handlers that change `event.content`: the views after them, and a retry, would see it changed."""

import functools
from collections.abc import Callable
from typing import Any

import orjson

from topology.declaration.view import View
from topology.inspectors import LazyJson
from topology.model.changes import collected, each_of
from topology.model.event import Event
from topology.model.printable import printable


class ChangedContent(AssertionError):
    """A handler changed its event's content; the text says which one, and of which event."""


def watching(view: View, note: Callable[[str], None]) -> Any:
    """The view's handler, which tells `note` where it left an event's content changed."""
    handler = view.handler

    def check(event: Event, before: bytes | None) -> None:
        if before is not None and _said(event.content) != before:
            note(
                f"view {view.name!r} changed event.content of stream {printable(event.stream)!r} "
                f"sequence {event.sequence}: all views of source {view.of.name!r} see the same "
                "content, and a retry sees it as it was left; change a copy, as copy.deepcopy makes"
            )

    @functools.wraps(handler)
    def run(event: Event, *state: Any) -> Any:
        before = _said(event.content)
        try:
            items = handler(event, *state)
            yield from () if items is None else each_of(items)
        finally:
            check(event, before)

    @functools.wraps(handler)
    async def arun(event: Event, *state: Any) -> Any:
        before = _said(event.content)
        try:
            result = handler(event, *state)
            if hasattr(result, "__aiter__"):
                async for item in result:
                    yield item
            else:
                for item in collected(await result or ()):
                    yield item
        finally:
            check(event, before)

    return arun if view.is_async else run


def _said(content: Any) -> bytes | None:
    """The content as JSON; None of one that JSON cannot hold, which is not looked at."""
    try:
        body = content.value if isinstance(content, LazyJson) else content
        return orjson.dumps(body, option=orjson.OPT_NON_STR_KEYS)
    except (TypeError, ValueError):
        return None
