"""A stream that is stuck is found, explained and freed in the browser alone."""

from collections.abc import Callable
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.apps.sequitur.console.conftest import EVIL, Operated, act, picture, table

pytestmark = pytest.mark.integration


def test_a_stream_that_is_stuck_is_found_explained_and_freed_by_one_of_two_operators(
    signed_in: Page, operated: Operated
) -> None:
    page = signed_in
    page.goto(f"{operated.url}/gaps")
    expect(table(page, "By age").get_by_role("row")).to_have_count(7)
    row = table(page, "Gaps").get_by_role("row").filter(has_text="order-7").filter(has_text="board")
    expect(row).to_contain_text("by itself: never")
    picture(page, "console-gaps")
    row.get_by_role("link").click()
    board = page.get_by_role("region", name="View board", exact=True)
    strip = board.get_by_role("list", name="Sequences")
    expect(strip.get_by_role("listitem")).to_have_text(["1 handled", "2 missing", "3 to 4 waiting"])
    expect(page.get_by_role("region", name="View mail", exact=True)).to_contain_text("2 skipped")
    expect(board).to_contain_text("stream order-7 in view board: sequence 2 is missing")
    other = page.context.new_page()
    other.goto(page.url)
    other.get_by_role("region", name="View board").get_by_role("button", name="Skip").click()
    late = other.get_by_role("dialog")
    do = late.get_by_role("button", name="Skip", exact=True)
    expect(do).to_be_enabled()
    act(page, board, "Skip", "goes on behind 2")
    late.get_by_label("Why").fill("I saw it, too")
    do.click()
    expect(late.get_by_role("status")).to_contain_text("2 is passed already")
    other.close()
    expect(strip.get_by_role("listitem").last).to_have_text("3 to 4 handled")


def test_a_stream_of_odd_characters_harms_nothing(signed_in: Page, operated: Operated) -> None:
    page = signed_in
    page.goto(f"{operated.url}/gaps")
    row = table(page, "Gaps").get_by_role("row").filter(has_text="<script>")
    row.filter(has_text="board").get_by_role("link").click()
    board = page.get_by_role("region", name="View board", exact=True)
    expect(board).to_contain_text("3 to 4 waiting")
    expect(page.locator("main script, main img, main b")).to_have_count(0)
    board.get_by_role("button", name="Skip").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("$'<script>window.evil=1</script>\\u000a\\u202e")
    expect(dialog.get_by_role("status")).to_contain_text("would")
    assert "\u202e" not in page.content()
    page.keyboard.press("Escape")
    assert len(EVIL) == 512


def test_the_events_of_a_stream_are_followed_to_failures_and_rows(
    page: Page, operated: Operated
) -> None:
    page.goto(f"{operated.url}/stream?id=order-8")
    expect(page.get_by_role("region", name="View board", exact=True)).to_contain_text("parked")
    events = page.get_by_role("region", name="Events", exact=True)
    events.get_by_role("button", name="Read events").click()
    failed = events.get_by_role("region", name="Sequence 2, Bad", exact=True)
    expect(failed).to_contain_text('{"id":"order-8","seq":2,"kind":"Bad"}')
    expect(failed).to_contain_text("errors: ValueError: no gate 2 (done: park)")
    expect(failed).to_contain_text('"values":{"seq":2,"note":"<b>a row</b>"}')
    waits = events.get_by_role("region", name="Sequence 3", exact=True)
    ends = [each.split("\n") for each in waits.get_by_role("definition").all_inner_texts()]
    assert [end[0] for end in ends] == ["parked", "handled", "handled"]
    failed.scroll_into_view_if_needed()
    picture(page, "console-events")
    page.goto(f"{operated.url}/stream?id={quote(EVIL)}")
    events.get_by_role("textbox", name="Sequence").fill("3")
    expect(page.get_by_role("region", name="View board", exact=True)).to_contain_text("waiting")
    events.get_by_role("button", name="Read events").click()
    expect(events).to_contain_text("1 message of sequence 3 found.")
    expect(page.locator("main script, main img, main b")).to_have_count(0)
    events.get_by_role("textbox", name="Sequence").fill("2")
    events.get_by_role("textbox", name="Sequence").press("Enter")
    expect(events).to_contain_text("0 messages of sequence 2 found.")


def test_many_gaps_are_skipped_with_a_preview(signed_in: Page, operated: Operated) -> None:
    page = signed_in
    page.goto(f"{operated.url}/gaps")
    page.get_by_label("Gaps", exact=True).click()
    page.get_by_role("option", name="of any age").click()
    act(page, page, "Skip all of these", "done")
    board = table(page, "Gaps").get_by_role("row").filter(has_text="board")
    expect(board).to_have_count(1)
    expect(board).to_contain_text("5 to 49")  # which lies behind what was skipped


def test_failures_are_grouped_and_brought_back(
    signed_in: Page, operated: Operated, commands: Callable[[], str]
) -> None:
    page = signed_in
    page.goto(f"{operated.url}/failures")
    group = page.get_by_role("region", name="Parked in board")
    expect(group).to_contain_text("2 streams of view board: ValueError: no gate …")
    expect(page.get_by_role("region", name="late ")).to_contain_text("late-1")
    dead = page.get_by_role("region", name="dead ")
    dead.get_by_role("button", name="The last one").click()
    expect(dead).to_contain_text('"seq":50')
    broken = page.get_by_role("region", name="malformed the inspector failed: ValueError")
    expect(broken).to_contain_text("an old format")
    expect(page.get_by_role("region", name="errors ").first).to_contain_text("no gate")
    picture(page, "console-failures")
    operated.mended.touch()
    act(page, broken, "Replay", "1 malformed message sent again")
    act(page, group, "Redrive all", "2 of 2 streams done")
    expect(page.get_by_role("region", name="Parked in board")).to_have_count(0)
    operated.worker.send(*((b"far", b'{"id": "far", "seq": %d}' % n) for n in (1, *range(5, 50))))
    act(page, dead, "Redrive dead", "put back")
    told = commands()
    for each in ("replay malformed", "redrive order-8", "redrive-dead", "[a test]"):
        assert each in told
    page.goto(f"{operated.url}/stream?id=far")
    small = page.get_by_role("region", name="View small", exact=True)
    expect(small.get_by_role("list")).to_have_text("1 to 50 handled")


def test_a_stream_that_nobody_knows_is_said_so(page: Page, operated: Operated) -> None:
    page.goto(f"{operated.url}/stream")
    page.get_by_label("Stream id").fill("order-77")
    page.get_by_label("Stream id").press("Enter")
    expect(page.get_by_text("Ids that come close")).to_be_visible()
    page.get_by_role("link", name="order-7", exact=True).click()
    expect(page.get_by_role("region", name="View board")).to_be_visible()
