"""What all pages have: the app, who may act, what is read, and the frame around a page."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import urlencode

from nicegui import ui

from sequitur.console.access import Access, Session
from sequitur.console.guard import session_of
from sequitur.console.jobs import Jobs
from sequitur.console.look import FOCUS, STYLE
from sequitur.console.reader import Reader
from sequitur.console.run_command import Answer, run_command
from sequitur.console.samples import Samples
from sequitur.console.words import Parts
from topology.faust.cli.answering import reason_of
from topology.faust.kafka.clients import connection
from topology.model.printable import printable

T = TypeVar("T")
EVERY = 3.0
"""Seconds from one look to the next, while a browser looks."""
SLOW = 15.0
"""Seconds after which it is said that there is no answer yet."""
PAGES = {
    "/": ("Overview",), "/gaps": ("Gaps",), "/stream": ("Stream",), "/failures": ("Failures",),
    "/lateness": ("Lateness",), "/audit": ("Audit",), "/read-store": ("Read store", "read-store"),
    "/delivery": ("Delivery", "relay", "inbox"), "/units": ("Units", "units"),
    "/routing": ("Routing", "router", "alerts"), "/sites": ("Sites", "sites"),
    "/replay": ("Replay", "replay"),
}  # fmt: skip
"""Address → name, and the parts that it is about: without one of them there is no such page."""


class Site:
    """The console of one app. place: by which commands find it. parts: what runs beside it."""

    def __init__(self, app: Any, place: str, access: Access, reader: Reader, parts: Parts) -> None:
        self.app, self.access, self.reader, self.parts = app, access, reader, parts
        self.place, self.start, self.jobs = place, f"faust -A {place}", Jobs(reader)
        self.topology, self.samples = app.engine.topology, Samples()

    def session(self) -> Session | None:
        """Who looks at this page, if they may act; asked anew for each action."""
        request = ui.context.client.request
        return None if request is None else session_of(self.access, request.scope)

    async def command(self, words: Sequence[str], stdin: bytes = b"") -> Answer:
        """What a command says; what keeps it from answering is said in its place."""
        try:
            return await self.reader.there(run_command(words, stdin))
        except (OSError, ValueError) as error:
            return Answer(2, str(error))

    @contextmanager
    def page(self, title: str) -> Iterator[None]:
        """The frame of a page: its head, the ways to the others, and the main part."""
        ui.page_title(f"{title} · {self.topology.name} · Sequitur")
        ui.add_css(STYLE)
        ui.add_head_html(FOCUS)
        with ui.header().classes("items-center q-py-sm"), ui.element("nav") as nav:
            nav.props('aria-label="Pages"').classes("row items-center q-gutter-md")
            ui.label(printable(self.topology.name)).classes("text-weight-bold")
            for target, (name, *needs) in PAGES.items():
                if not needs or any(map(self.parts.get, needs)):
                    ui.link(name, target).classes("text-white")
            self._who()
        main = ui.element("div").classes("full-width")
        ui.skip_link("Skip to the page", target=main)
        with main:
            with ui.element("h1"):
                ui.label(title)
            yield

    def reason(self, error: Exception) -> str:
        """Why there is no answer, in words."""
        return reason_of(error, connection(self.app)["bootstrap_servers"])

    def _who(self) -> None:
        session = self.session()
        if session is None:
            ui.link("Read only: sign in to act", "/login").classes("text-white")
            return
        ui.label(f"{session.who} may act")
        with ui.element("form").props('method="post" action="/logout"'):
            ui.button("Sign out").props('type="submit" flat dense color="white" no-caps')

    def live(
        self,
        name: str,
        question: Callable[[Any], Awaitable[T]],
        show: Callable[[T, T | None], None],
        *,
        every: float = EVERY,
    ) -> None:
        """Show an answer, and show it anew when it has changed, while a browser looks.

        A trouble is said in place of the answer, and the next look is tried all the same.
        """
        said = ui.label("reading …").props('role="status"')
        body, shown = ui.element("div").classes("full-width"), list[T]()

        async def look() -> None:
            asked = asyncio.ensure_future(self.reader.ask(name, question))
            try:
                await asyncio.wait([asked], timeout=SLOW)
                if not asked.done() and shown:
                    said.set_text("There is no answer yet: what is shown is older.")
                    said.set_visibility(True)
                found = await asked
            except Exception as error:
                said.set_text(f"Not known at the moment: {printable(self.reason(error), 400)}")
                said.classes(add="bad").set_visibility(True)
                return
            said.set_visibility(False)
            said.classes(remove="bad")
            before = shown[-1] if shown else None
            if before is None or _facts(before) != _facts(found):
                shown[:] = [found]
                body.clear()
                with body:
                    show(found, before)

        ui.timer(every, look)


def _facts(found: Any) -> Any:
    """What of an answer is not only the time at which it was given."""
    if isinstance(found, tuple | list):
        return [_facts(each) for each in found]
    slots = getattr(type(found), "__dataclass_fields__", None)
    if slots is None:
        return found
    return {name: _facts(getattr(found, name)) for name in slots if name != "now"}


def stream_link(stream: str) -> str:
    """The address of a stream's page, whatever characters its id has."""
    return "/stream?" + urlencode({"id": stream}, errors="surrogatepass")


def view_link(view: str) -> str:
    """The address of a view's page."""
    return "/view?" + urlencode({"name": view})


def text_table(
    title: str, heads: dict[str, str], rows: list[dict[str, Any]], *, link: str = "",
    numbers: tuple[str, ...] = (),
) -> ui.table:  # fmt: skip
    """A table of text; cells are text whatever is in them. link: a column, of rows with an href."""
    columns = [
        {"name": key, "label": label, "field": key, "align": "right" if key in numbers else "left"}
        for key, label in heads.items()
    ]
    rows = [{"row": number, **row} for number, row in enumerate(rows)]
    made = ui.table(columns=columns, rows=rows, row_key="row").props("dense flat wrap-cells")
    made.props["aria-label"], made.props["role"] = title, "region"
    made.classes("full-width isolated").add_slot("no-data", "none")
    if link:
        made.add_slot(
            f"body-cell-{link}",
            '<q-td :props="props"><a :href="props.row.href">{{ props.value }}</a></q-td>',
        )
    return made
