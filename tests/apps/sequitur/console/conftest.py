"""One broker, worker, console and browser for all tests of the console."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import orjson
import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Locator,
    Page,
    Request,
    expect,
    sync_playwright,
)

from checkout import chromium
from sequitur.local.process import spawn
from tests.apps.sequitur.console.parts import SECRET, fill_read_store, parts_of
from tests.conftest import BrokerAddress
from tests.topology.faust.worker_process import Worker

TOKEN = "a-token-of-the-tests"
EVIL = "<script>window.evil=1</script>\n\u202e\"'>&{{ 7*7 }}<img src=x onerror=window.evil=2>"
EVIL += "é" * (512 - len(EVIL))

APP = """
import os
import time
from pathlib import Path
import orjson
from topology import Inspected, Table, Topology, Upsert, adaptive, park, redeliver, skip
from topology.faust import compile

prefix = os.environ["PREFIX"]
mended = Path(os.environ["MENDED"])
while mended.with_name("held").exists():
    time.sleep(0.05)
topology = Topology(prefix)

def inspect(message):
    body = orjson.loads(message.value)
    if body.get("old") and not mended.exists():
        raise ValueError(f"an old format of {body['id']!r}")
    return Inspected(body["id"], body["seq"], body.get("kind"), message.value)

source = topology.source(prefix + ".in", inspector=inspect, partitions=2)

def handled(event):
    if event.kind == "Bad" and not mended.exists():
        raise ValueError(f"no gate {event.sequence}")
    return []

@topology.view("board", of=source, error=park())
def board(event):
    return handled(event)

@topology.view("mail", of=source, gap=skip(after=adaptive(start=0.5, at_least=0.5)))
def mail(event):
    return handled(event)

rows = Table("small", {"stream": str}, {"seq": int, "note": str})

@topology.view("small", of=source, buffer=4, full=redeliver(delay=0.1, limit=2), tables=[rows])
def small(event):
    note = "<b>a row</b>"
    return [Upsert("small", {"stream": event.stream}, {"seq": event.sequence, "note": note})]

app = compile(topology, group=prefix, session_timeout=60)
"""


def event(stream: str, seq: int, **more: object) -> tuple[bytes, bytes]:
    return stream.encode(), orjson.dumps({"id": stream, "seq": seq, **more})


def part(page: Page, name: str) -> Locator:
    """A part of a page, by the beginning of its name."""
    return page.get_by_role("region", name=name).first


def act(page: Page, within: Page | Locator, name: str, says: str, would: str = "would") -> None:
    """Do what a button does, after its dry run; the answer has a text."""
    within.get_by_role("button", name=name, exact=True).first.click()
    dialog = page.get_by_role("dialog")
    do = dialog.get_by_role("button", name=name, exact=True)
    expect(do).to_be_enabled()
    expect(dialog.get_by_role("status")).to_contain_text(would)
    dialog.get_by_label("Why").fill("a test")
    do.click()
    expect(dialog.get_by_role("status")).to_contain_text(says)
    dialog.get_by_role("button", name="Cancel", exact=True).click()
    expect(dialog).to_have_count(0)


def picture(page: Page, name: str) -> None:
    """With SEQUITUR_PICTURES=docs/images, a picture of the documentation is made anew."""
    if folder := os.environ.get("SEQUITUR_PICTURES"):
        page.screenshot(path=Path(folder) / f"{name}.png")


def tab_to(page: Page, name: str) -> None:
    """Go to what has a name by the Tab key alone."""
    asked = "document.activeElement.getAttribute('aria-label') || document.activeElement.innerText"
    for _ in range(100):
        page.keyboard.press("Tab")
        if page.evaluate(asked).strip() == name:
            return
    pytest.fail(f"no way to {name!r} by Tab")


def table(page: Page, name: str) -> Locator:
    """A table of a page."""
    return page.get_by_role("region", name=name, exact=True)


@dataclass
class Operated:
    """A worker, and the console beside it."""

    worker: Worker
    url: str
    environment: dict[str, str]
    mended: Path
    outside: list[str] = field(default_factory=list)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Commands that start in here do not get on before it ends."""
        self.mended.with_name("held").touch()
        try:
            yield
        finally:
            self.mended.with_name("held").unlink()


@pytest.fixture(scope="session")
def operated(broker: BrokerAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    """A worker that has met all that a console shows, and its console."""
    folder = tmp_path_factory.mktemp("console")
    mended = folder / "mended"
    worker = Worker(broker.address, f"console-{uuid4().hex[:8]}", folder, APP)
    told = {"MENDED": str(mended), "CONSOLE_TOKEN": TOKEN, "UNITS_TOKEN": SECRET}
    worker.start(**told)
    parts = parts_of(worker, folder)
    log = folder / "console.log"
    words = [sys.executable, "-m", "sequitur", "console", "-A", "app", "--port", "0", *parts.words]
    with log.open("wb") as output:
        console = spawn(words, env=worker.environment, output=output, cwd=folder)
    try:
        late = [event("late-1", 1), event("late-1", 3)]
        stuck = [event(s, n) for s in ("order-7", "order-17", EVIL) for n in (1, 3, 4)]
        bad = [event("order-8", 1), event("order-8", 2, kind="Bad"), event("order-8", 3)]
        bad += [event("order-18", 1, kind="Bad"), event("order-18", 2)]
        far = [event("far", n) for n in (2, 3, 4, 50)]
        worker.send(*late, *stuck, *bad, *far, (b"x", b"<b>no JSON</b>"))
        worker.send(event("old", 1, old=True), *(event("fine", n) for n in range(1, 6)))
        worker.wait("malformed", 2)
        worker.wait("parked", 4)
        worker.wait("dead", 1)
        worker.wait("errors", 4)
        late_1 = ("explain", "late-1", "--view", "mail")
        worker.wait_until(
            lambda: "without sequence 2: skipped" in worker.run(*late_1, **told).stdout
        )
        worker.send(event("late-1", 2))
        worker.wait("late", 1)
        fill_read_store(worker, folder)
        url = _address(console, log)
        yield Operated(worker, url, told, mended)
        console.terminate()
        assert console.wait(240) == 0, log.read_text()
        assert "Traceback" not in log.read_text(), log.read_text()
    finally:
        console.kill()
        console.wait()
        worker.kill()
        parts.kill()
    assert TOKEN not in log.read_text()


def _address(console: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + 240
    while not (found := re.search(r"console: (http://\S+)/", log.read_text())):
        assert console.poll() is None, log.read_text()
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.1)
    return found[1]


# Not for the whole session: Playwright runs an event loop in this thread until it ends, and no
# other module's async test could run.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if (missing := chromium.missing()) is not None:
        pytest.skip(missing)
    with sync_playwright() as driver:
        # Its sandbox does not run as root.
        found = driver.chromium.launch(
            executable_path=chromium.browser_file(), args=["--no-sandbox", "--disable-gpu"]
        )
        expect.set_options(timeout=240_000)  # how long that takes says more of the machine
        yield found
        found.close()


@pytest.fixture(scope="module")
def context(browser: Browser, operated: Operated) -> Iterator[BrowserContext]:
    """The tests' browser, with what it has loaded before; no request of it may leave for another
    place than the console."""
    made = browser.new_context(viewport={"width": 1280, "height": 900})
    made.set_default_timeout(240_000)

    def note(request: Request) -> None:
        if not request.url.startswith((operated.url, "data:", "blob:")):
            operated.outside.append(request.url)

    made.on("request", note)
    yield made
    made.close()
    assert operated.outside == []


@pytest.fixture
def page(context: BrowserContext, operated: Operated) -> Iterator[Page]:
    """A page of somebody without the token, not yet at the console; what goes wrong in it fails
    the test."""
    context.clear_cookies()
    made, wrong = context.new_page(), list[str]()
    made.on("pageerror", lambda error: wrong.append(str(error)))
    yield made
    assert made.evaluate("window.evil") is None
    assert wrong == []
    made.close()


@pytest.fixture
def signed_in(page: Page, operated: Operated) -> Page:
    """The same of somebody who gave the token."""
    form: dict[str, str | float | bool] = {"who": "ann", "token": TOKEN}
    headers = {"Origin": operated.url}
    answer = page.request.post(f"{operated.url}/login", form=form, headers=headers, max_redirects=0)
    assert answer.status == 303
    return page


@pytest.fixture
def commands(operated: Operated) -> Callable[[], str]:
    """What the command line lists of commands."""
    return lambda: operated.worker.run("commands", **operated.environment).stdout
