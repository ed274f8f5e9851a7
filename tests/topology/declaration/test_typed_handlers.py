"""`mypy --strict` on a user's handlers: what is right passes, what is wrong is found."""

import re
import subprocess
import sys

import pytest

from sequitur.local.home import ROOT

pytestmark = pytest.mark.integration

DECLARED = """

class Order(TypedDict):
    id: str
    amount: float


class Totals(TypedDict, total=False):
    paid: float


shop = Topology("shop")
orders = shop.source("orders", inspector=Inspector(stream="id", sequence="n"))

"""
GOOD = (
    """
from collections.abc import AsyncIterator, Iterator
from typing import TypedDict

from topology import (
    Cells, Delete, Emit, Event, Inspector, Output, Record, State, Topology, Upsert, skip
)
from topology.routing import RoutedSource, Rule, RuleSet, Transformation

"""
    + DECLARED
    + """

@shop.view("totals", of=orders, gap=skip(after=60))
def totals(event: Event[Order], state: State[Totals]) -> Iterator[Output]:
    paid: float = state.get("paid", 0.0) + event.content["amount"]
    state["paid"] = paid
    yield Upsert("totals", key={"id": event.stream}, values={"paid": paid})


@shop.view("plain", of=orders)
def plain(event: Event, state: State) -> list[Output]:
    state["n"] = event.sequence
    return [Delete("t", key={"id": event.stream}), Emit("log", event.stream, {"n": 1})]


@shop.view("mails", of=orders)
async def mails(event: Event[Order]) -> AsyncIterator[Emit]:
    yield Emit("mails", event.stream, event.content["id"])


@shop.view("counted", of=orders)
def counted(event: Event[Order], state: State[Totals], cells: Cells) -> None:
    cells[event.content["id"]] = 1


@shop.view("calls", of=orders)
async def calls(event: Event[Order]) -> list[Upsert] | None:
    return None


def quiet(event: Event[Order]) -> None: ...


shop.view("quiet", of=orders, handler=quiet)
loud = Transformation("loud", "json", "json", lambda content, message: content.upper())
rules = RuleSet(
    1,
    sources=[RoutedSource("orders", ("all",))],
    rules=[Rule("all", to=("large",))],
    destinations={"large": None},
)
shop.view("sizes", of=orders, gap=skip(after=60)).transform(loud).route(rules).to({"large": "l"})
mailed = shop.view("mailed", of=orders)
mailed(mails)
mailed.sent_to("mails").transform(loud, loud).to("loud-mails")
shop.view("short", of=orders, handler=lambda event: [Emit("log", event.stream, None)])
checked: list[Output] = plain(Event("a", 1, None, {}, Record("orders", 0, 0, None, b"")), {})
"""
)

BAD = (
    """
from collections.abc import Iterator
from typing import TypedDict

from topology import Event, Inspector, Output, State, Topology, Upsert

"""
    + DECLARED
    + """

@shop.view("one", of=orders)
def one(event: Event[Order], state: State[Totals]) -> Iterator[Output]:
    event.content["amuont"]  # typeddict-item
    state["paid"] = "much"  # typeddict-item
    event.content["amount"].upper()  # attr-defined
    event.stream = "b"  # misc
    event.sequence + "1"  # operator
    yield {"id": 1}  # misc
    yield Upsert("t", {"id": 1})  # call-arg


@shop.view("two", of=orders)  # type-var
def two(event: Event[Order]) -> Iterator[str]:
    yield "a text"


@shop.view("three", of=orders)  # type-var
def three(event: Event[Order], state: State[Totals], more: int) -> None: ...


@shop.view("four", of=[orders])  # arg-type
def four(event: str) -> None: ...


shop.view("five", of=orders, handler=lambda event: 5)  # arg-type
shop.view("six", of=orders).route("rules.toml").to()  # arg-type
shop.view("seven", of=orders).transform(upper=1)  # call-arg
shop.view("eight", of=orders).to(8)  # arg-type
"""
)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[int, str]]]:
    """File → (line, code) of what mypy says."""
    folder = tmp_path_factory.mktemp("typed")
    for name, text in (("good", GOOD), ("bad", BAD)):
        (folder / f"{name}.py").write_text(text)
    # With the project's own settings and cache: to read all of it anew takes long.
    answer = subprocess.run(
        [
            sys.executable, "-m", "mypy", "--strict", "--no-error-summary",
            str(folder / "good.py"), str(folder / "bad.py"),
        ],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert not answer.stderr
    said: dict[str, list[tuple[int, str]]] = {"good.py": [], "bad.py": []}
    for line in answer.stdout.splitlines():
        if match := re.fullmatch(r".*?(\w+\.py):(\d+): error: .*\[([\w-]+)\]", line):
            said[match[1]].append((int(match[2]), match[3]))
        else:
            assert ": note: " in line, line
    return said


def test_what_is_right_passes(found: dict[str, list[tuple[int, str]]]) -> None:
    assert found["good.py"] == []


def test_what_is_wrong_is_found_where_it_is(found: dict[str, list[tuple[int, str]]]) -> None:
    lines = enumerate(BAD.splitlines(), 1)
    expected = {(at, line.split("  # ")[1]) for at, line in lines if "  # " in line}
    assert expected <= set(found["bad.py"])
