"""Lateness and audits, in a browser."""

import pytest
from playwright.sync_api import Page, expect

from tests.apps.sequitur.console.conftest import Operated, part, picture, table

pytestmark = pytest.mark.integration


def test_lateness_is_shown_and_time_outs_are_tried(page: Page, operated: Operated) -> None:
    page.goto(f"{operated.url}/lateness")
    learned = part(page, "What views learned")
    expect(learned).to_contain_text("View mail holds gaps for 0.5 s")
    tried = part(page, "Time-outs tried on source")
    tried.get_by_label("Times to try besides").fill("7s")
    tried.get_by_role("button", name="Run").click()
    expect(table(page, "Time-outs of view board")).to_contain_text("7 s")
    expect(tried).to_contain_text("suggest-timeouts")


def test_an_audit_runs_and_can_be_cancelled(page: Page, operated: Operated) -> None:
    page.goto(f"{operated.url}/audit")
    main = page.get_by_role("main")
    with operated.held():  # else it may be done before anybody cancels it
        main.get_by_role("button", name="Run").click()
        main.get_by_role("button", name="Cancel").click()
        expect(main.get_by_role("status")).to_have_text("It was cancelled.")
    main.get_by_role("button", name="Run").click()
    expect(main.get_by_text("It is done.")).to_be_visible()
    expect(main.get_by_text("Not in order: ")).to_contain_text("malformed")
    expect(table(page, "Counts").get_by_role("row")).to_have_count(4)
    expect(main).to_contain_text("faust -A app audit --json")
    picture(page, "console-audit")
