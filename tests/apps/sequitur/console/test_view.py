"""The page of a view: halted, and resumed, with a reason; not without the token."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.apps.sequitur.console.conftest import Operated, table

pytestmark = pytest.mark.integration


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


def test_a_view_is_halted_and_resumed_and_who_and_why_is_recorded(
    signed_in: Page, operated: Operated, commands: Callable[[], str]
) -> None:
    page = signed_in
    page.goto(f"{operated.url}/view?name=mail")
    for name, why in (("Halt", "its <b>table</b> moves"), ("Resume", "it is back")):
        page.get_by_role("button", name=name).click()
        dialog = page.get_by_role("dialog")
        do = dialog.get_by_role("button", name=name)
        expect(do).to_be_enabled()
        do.press("Enter")
        expect(dialog).to_contain_text("Say why")
        dialog.get_by_label("Why").fill(why)
        expect(dialog).to_contain_text(f"faust -A app {name.lower()} --why '{why}' mail")
        do.press("Enter")
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


def test_a_view_that_is_not_there_is_said_so(page: Page, operated: Operated) -> None:
    page.goto(f"{operated.url}/view?name=%3Cscript%3Ewindow.evil%3D1%3C%2Fscript%3E")
    expect(page.get_by_role("alert")).to_have_text("There is no such view.")
