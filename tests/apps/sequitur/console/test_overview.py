"""The overview, in a browser."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.apps.sequitur.console.conftest import Operated, picture, table

pytestmark = pytest.mark.integration


def test_overview_tells_what_is_not_well(page: Page) -> None:
    views = table(page, "Views")
    expect(views.get_by_role("row")).to_have_count(4)
    expect(views.get_by_role("row", name="board")).to_contain_text("runs")
    expect(page.get_by_text("Not well: ")).to_be_visible()
    expect(page.get_by_text("view board: 4 events parked")).to_be_visible()
    expect(table(page, "Workers")).to_contain_text("partitions")
    expect(page.locator("svg[aria-roledescription^=flowchart]")).to_have_count(1)
    expect(page.get_by_text("Nobody has given a command.")).to_be_visible()


def test_overview_is_read_with_a_keyboard_and_has_landmarks(page: Page) -> None:
    expect(page.get_by_role("main")).to_have_count(1)
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()
    page.get_by_role("link", name="board", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("board")


def test_overview_is_dark_where_the_browser_is(page: Page, operated: Operated) -> None:
    page.emulate_media(color_scheme="dark")
    expect(page.locator("body")).to_have_class(re.compile("body--dark"))
    expect(table(page, "Views")).to_contain_text("board")
    page.emulate_media(color_scheme="light")
    expect(page.locator("body")).to_have_class(re.compile("body--light"))
    expect(page.locator("svg[aria-roledescription^=flowchart]")).to_be_visible()
    picture(page, "console-overview")
    page.goto(f"{operated.url}/stream?id=order-17")
    expect(page.get_by_role("region", name="View board")).to_contain_text("missing")
    picture(page, "console-stream")
