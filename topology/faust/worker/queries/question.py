"""A question about a view's state, as it is read from an address's query."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self, cast, get_args

from topology.declaration.topology import Topology
from topology.declaration.view import View
from topology.engine.state.reading import LIMIT
from topology.model.duration import seconds_of
from topology.model.errors import Malformed
from topology.model.printable import printable

What = Literal["state", "cells", "rows"]
PAGE = 100
"""Cells or rows of a page, unless somebody says how many."""
MOST_SKIPPED = 10_000
"""Cells or rows that a page may leave out: each is read for it."""
LONGEST = 3_000
"""Letters of what is asked for, each."""
KNOWN = (
    "view", "stream", "what", "fold", "from", "to", "limit", "skip", "max_staleness", "not_in",
)  # fmt: skip


class Wrong(ValueError):
    """A question that has no answer, whoever is asked. status: as HTTP has it."""

    def __init__(self, why: str, status: int = 400) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked.

    Attributes:
        view: the view.
        stream: the stream, in the view's own form.
        what: the stream's own dictionary, its cells, or the rows of a fold.
        fold: the fold whose rows are meant; the view's own.
        first: the first cell; empty for all.
        end: the cell behind the last one; empty for no end.
        limit: cells or rows at most.
        skip: how many of them the page leaves out.
        max_staleness: seconds; None if it does not matter.
        not_in: bits of the partitions that others have found not to have the stream.
    """

    view: View
    stream: str
    what: What
    fold: str
    first: str
    end: str
    limit: int
    skip: int
    max_staleness: float | None
    not_in: int = 0

    @classmethod
    def read(cls, topology: Topology, query: Mapping[str, str]) -> Self:
        """Read it.

        Args:
            topology: whose views are asked for.
            query: name → value.

        Raises:
            Wrong: something is missing, unknown or wrong; with the remedy.
        """
        for name, value in query.items():
            if name not in KNOWN:
                raise Wrong(f"{printable(name, 100)}: it is none of {', '.join(KNOWN)}")
            if len(value) > LONGEST or "\0" in value:
                raise Wrong(f"{name}: it has more than {LONGEST} letters, or a NUL")
        view = topology.views.get(query.get("view", ""))
        if view is None:
            known = ", ".join(topology.views) or "none"
            raise Wrong(f"view: name one of {known}", 404)
        if view.work is not None:
            raise Wrong(f"view: {view.name} has workers, whose state is not answered for", 404)
        if not query.get("stream"):
            raise Wrong("stream: name the stream; of a fold by key, the key")
        try:
            stream = view.stream_id(query["stream"])
        except Malformed as error:
            raise Wrong(f"stream: {printable(str(error), 300)}") from None
        if view.split is not None and "|" not in stream:
            raise Wrong(f"stream: view {view.name} has lanes; name one, as in stream|lane")
        what = query.get("what", "rows" if view.folds else "state")
        if what not in get_args(What):
            raise Wrong(f"what: use one of {', '.join(get_args(What))}")
        for name, of in (("from", "cells"), ("to", "cells"), ("fold", "rows")):
            if query.get(name) and what != of:
                raise Wrong(f"{name}: it is of what={of}, and this asks for {what}; leave it out")
        fold = query.get("fold", view.name)
        if what == "rows" and fold not in view.folds:
            known = ", ".join(view.folds) or "none: ask for its state or cells"
            raise Wrong(f"fold: view {view.name} has {known}", 404)
        stale = query.get("max_staleness")
        try:
            wanted = None if stale is None else seconds_of(stale)
        except ValueError as error:
            raise Wrong(f"max_staleness: {error}") from None
        if wanted is not None and view.of.fed_by:
            raise Wrong(
                f"max_staleness: view {view.name} reads what {', '.join(view.of.fed_by)} sends, on "
                "all workers, and how far they are is not known here; leave it out, or "
                "ask these views with it first, and compare `as_of.offset` with `as_of.end` here"
            )
        try:
            not_in = int(query.get("not_in", "0"), 16)
        except ValueError:
            raise Wrong("not_in: it is what a redirect says; leave it out") from None
        skip = _number(query, "skip", 0, 0, MOST_SKIPPED)
        if skip and what == "state":
            raise Wrong("skip: a state has no pages; leave it out")
        return cls(
            view, stream, cast(What, what), fold, query.get("from", ""), query.get("to", ""),
            _number(query, "limit", PAGE, 1, LIMIT), skip, wanted, not_in,
        )  # fmt: skip


def _number(query: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = query.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= most):
        raise Wrong(f"{name}: give a number, {least} at least and {most} at most")
    return int(text)
