"""The overview and the page of a view, in a browser."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.apps.sequitur.console.conftest import (
    TOKEN,
    Operated,
    picture,
    tab_to,
    table,
)

pytestmark = pytest.mark.integration


def test_overview_tells_what_is_not_well_and_is_read_with_a_keyboard_light_and_dark(
    page: Page, operated: Operated
) -> None:
    page.goto(operated.url)
    views = table(page, "Views")
    expect(views.get_by_role("row")).to_have_count(4)
    expect(views.get_by_role("row", name="board")).to_contain_text("runs")
    expect(page.get_by_text("Not well: ")).to_be_visible()
    expect(page.get_by_text("view board: 4 events parked")).to_be_visible()
    expect(table(page, "Workers")).to_contain_text("partitions")
    expect(
        page.get_by_role("listitem").filter(has_text=re.compile(r"^source .* of them"))
    ).not_to_have_count(0)
    expect(page.get_by_text("Nobody has given a command.")).to_be_visible()
    expect(page.get_by_role("main")).to_have_count(1)
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    expect(page.locator("svg[aria-roledescription^=flowchart]")).to_be_visible()
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        expect(page.locator("body")).to_have_class(re.compile(f"body--{scheme}"))
    picture(page, "console-overview")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()
    tab_to(page, "board")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("board")


def test_a_stream_is_looked_at_by_its_address(page: Page, operated: Operated) -> None:
    page.goto(f"{operated.url}/stream?id=order-17")
    expect(page.get_by_role("region", name="View board")).to_contain_text("missing")
    picture(page, "console-stream")


def test_without_the_token_nothing_is_done_and_the_command_is_shown(
    page: Page, operated: Operated, commands: Callable[[], str]
) -> None:
    page.goto(f"{operated.url}/view?name=mail")
    expect(table(page, "Places")).to_contain_text("processed")
    page.get_by_role("button", name="Halt").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("faust -A app halt mail")
    expect(dialog.get_by_role("button", name="Halt")).to_be_disabled()
    expect(dialog.get_by_role("link", name="sign in")).to_be_visible()
    # Whoever enables the button has the server against him.
    dialog.get_by_role("button", name="Halt").evaluate(
        "button => { button.disabled = false; button.click() }"
    )
    assert "halt" not in commands()


def test_by_keyboard_alone_a_view_is_halted_and_resumed_and_who_and_why_is_recorded(
    page: Page, operated: Operated, commands: Callable[[], str]
) -> None:
    page.goto(f"{operated.url}/login?who=eve&token={TOKEN}")  # an address signs nobody in
    page.keyboard.press("Tab")
    expect(page.get_by_label("Your name")).to_be_focused()
    page.keyboard.type("ann")
    page.keyboard.press("Tab")
    page.keyboard.type(TOKEN)
    page.keyboard.press("Enter")
    page.get_by_text("ann may act").wait_for()
    assert TOKEN not in page.url
    page.goto(f"{operated.url}/view?name=mail")
    for name, why in (("Halt", "its <b>table</b> moves"), ("Resume", "it is back")):
        expect(page.get_by_role("button", name=name)).to_be_visible()
        tab_to(page, name)
        page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog")
        do = dialog.get_by_role("button", name=name)
        expect(do).to_be_enabled()
        do.press("Enter")
        expect(dialog).to_contain_text("Say why")
        expect(dialog.get_by_label("Why")).to_be_focused()
        page.keyboard.type(why)
        expect(dialog).to_contain_text(f"faust -A app {name.lower()} --why '{why}' mail")
        tab_to(page, name)
        page.keyboard.press("Enter")
        expect(dialog).to_contain_text(
            "view mail is halted" if name == "Halt" else "view mail goes on"
        )
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        expect(page.get_by_text(f"{name.lower()} by ann by ")).to_contain_text(why)
        halted = page.get_by_text("It is halted.")
        expect(halted).to_have_count(1 if name == "Halt" else 0)
    told = commands()
    assert "ann by " in told
    assert "[its <b>table</b> moves]" in told
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("link", name=re.compile("sign in"))).to_be_visible()


def test_a_view_that_is_not_there_is_said_so(page: Page, operated: Operated) -> None:
    page.goto(f"{operated.url}/view?name=%3Cscript%3Ewindow.evil%3D1%3C%2Fscript%3E")
    expect(page.get_by_role("alert")).to_have_text("There is no such view.")
