"""The pages about what runs beside the topology, each on a real part."""

import re
import sqlite3
from contextlib import closing

import pytest
from playwright.sync_api import Page, expect

from tests.apps.sequitur.console.conftest import (
    Operated,
    act,
    part,
    picture,
    table,
)

pytestmark = pytest.mark.integration


def fill(page: Page, within: str, **fields: str) -> None:
    for label, text in fields.items():
        part(page, within).get_by_label(label.replace("_", " "), exact=False).first.fill(text)


def test_read_store_shows_lag_dead_records_and_rows(signed_in: Page, operated: Operated) -> None:
    page = signed_in
    page.goto(f"{operated.url}/read-store")
    expect(page.get_by_text("1 dead record")).to_be_visible()
    expect(table(page, "Output topics")).to_contain_text(".small")
    rows = table(page, "Table small")
    expect(rows).to_contain_text("<b>a row</b>")
    expect(page.locator("main b")).to_have_count(0)
    act(page, part(page, "Dead records"), "Remove", "1 dead record removed")
    expect(page.get_by_text("removed 1 of them: a test")).to_contain_text(": ann by ")
    expect(page.get_by_text("; 1 dead record")).to_be_visible()  # that it was dead stays counted


def test_delivery_shows_what_waits_and_releases_what_is_parked(
    signed_in: Page, operated: Operated
) -> None:
    page = signed_in
    page.goto(f"{operated.url}/delivery")
    expect(part(page, "Outbox and relay")).to_contain_text("topic orders: 1 message waits")
    inbox = page.get_by_role("region", name="warehouse: parked")
    expect(inbox).to_contain_text("orders A-17: sequence 1 failed 1 time")
    expect(inbox).to_contain_text("Not in order.")
    form = part(page, "A parked stream of inbox")
    form.get_by_role("button", name="Unpark").click()
    expect(page.get_by_text("Fill in: Topic, Stream")).to_be_visible()
    fill(page, "A parked stream of inbox", Topic="orders", Stream="A-17")
    act(page, form, "Unpark", "goes on behind 1", would="")
    expect(inbox).to_contain_text("In order.")
    told = page.get_by_role("region", name="warehouse: commands")
    expect(told).to_contain_text("unpark orders A-17 at sequence 1: a test")
    expect(told).to_contain_text("ann by ")


def test_units_are_shown_and_parked_with_who_and_why(signed_in: Page, operated: Operated) -> None:
    page = signed_in
    page.goto(f"{operated.url}/units")
    units = part(page, "Units of")
    expect(units).to_contain_text("order-7: ")
    fill(page, "A unit of", Unit="order-7")
    act(page, part(page, "A unit of"), "Park", "park: order-7 of member 0, on record", would="")
    expect(units).to_contain_text("order-7: parked")
    expect(units).to_contain_text("a test")


def test_a_router_is_shown_a_message_is_explained_and_rules_are_loaded_again(
    signed_in: Page, operated: Operated
) -> None:
    page = signed_in
    page.goto(f"{operated.url}/routing")
    expect(page.get_by_role("region", name="router.toml: rules, processes")).to_contain_text(
        "heard, routes by rules"
    )
    expect(page.get_by_text("rule all: fired ")).to_be_visible()
    way = page.get_by_role("region", name="router.toml: the way of a message")
    way.get_by_label("Message").fill('{"gate": "A1"}')
    way.get_by_role("button", name="Explain").click()
    expect(way).to_contain_text("rule all fired")
    picture(page, "console-routing")
    parked = page.get_by_role("region", name="router.toml: parked streams")
    expect(parked).to_contain_text("=r")
    rules = page.get_by_role("region", name="router.toml: rules", exact=False).last
    act(page, rules, "Reload", "are decided, by 1 processes", would="")
    expect(page.get_by_text("last order: propose by ann by ")).to_contain_text("a test")
    form = page.get_by_role("region", name="router.toml: a parked stream")
    form.get_by_label("Stream").fill("=r")
    act(page, form, "Unpark", "1 stream went on", would="")
    form = page.get_by_role("region", name="router.toml: trails")
    form.get_by_label("none, fired or all").fill("all")
    act(page, form, "Write trails", "trails: all", would="")
    form = page.get_by_role("region", name="router.toml: an endpoint")
    form.get_by_label("Endpoint", exact=True).fill("desk")
    form.get_by_label("Destination").fill("out")
    act(page, form, "Register", "are decided, by 1 processes", would="")
    page.reload()
    told = page.get_by_role("region", name="router.toml: rules, processes")
    expect(told).to_contain_text("trails: all, of each 1.")
    expect(told).to_contain_text("desk")


def test_sites_are_shown_and_a_takeover_that_cannot_be_says_why(
    signed_in: Page, operated: Operated
) -> None:
    page = signed_in
    page.goto(f"{operated.url}/sites")
    expect(page.get_by_role("region", name="sites.toml: who answers")).to_contain_text(
        "kennedy does not answer"
    )
    form = page.get_by_role("region", name="sites.toml: decide")
    form.get_by_label("Site", exact=True).fill("kennedy")
    form.get_by_label("Epoch").fill("1")
    form.get_by_role("button", name="Take over").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("sequitur sites takeover")
    expect(dialog.get_by_role("status")).to_contain_text("kennedy")
    expect(dialog.get_by_role("button", name="Take over")).to_be_disabled()


def test_what_was_published_is_found_previewed_and_its_replay_is_paused_and_cancelled(
    signed_in: Page, operated: Operated
) -> None:
    page = signed_in
    page.goto(f"{operated.url}/replay")
    search = page.get_by_role("region", name="replay.toml: search")
    search.get_by_label("Conditions").fill("tail=N1")
    search.get_by_role("button", name="Timeline").click()
    expect(search.get_by_text("5 messages found.")).to_be_visible()
    expect(table(page, "Messages").get_by_role("row")).to_have_count(6)
    expect(table(page, "Timeline").get_by_role("row")).to_have_count(25)
    picture(page, "console-replay")
    shown = page.get_by_role("region", name="replay.toml: a message")
    shown.get_by_label("Its id").fill("2")
    shown.get_by_role("button", name="Show").click()
    expect(shown).to_contain_text('value: {"leg": 1}')
    form = page.get_by_role("region", name="replay.toml: preview")
    form.get_by_label("Conditions").fill("tail=N1")
    form.get_by_label("To: TARGET").fill(f"{operated.worker.prefix}.again")
    form.get_by_label("Messages a second").fill("0.01")  # it is not done before it is cancelled
    act(page, form, "Preview", "5", would="")
    replays = page.get_by_role("region", name="replay.toml: replays")
    expect(replays).to_contain_text("previewed")
    one = page.get_by_role("region", name="replay.toml: a replay")
    found = re.search(r"\b[0-9a-f]{16}\b", replays.inner_text())
    assert found is not None
    one.get_by_label("Id").fill(found[0])
    for name, state in (
        ("Start", "running"), ("Pause", "paused"), ("Resume", "running"), ("Cancel", "cancelled"),
    ):  # fmt: skip
        act(page, one, f"{name} replay", "", would="")
        expect(replays).to_contain_text(state)
    assert len(operated.worker.records("again")) < 5
    with closing(sqlite3.connect(operated.mended.parent / "replay.sqlite")) as log:
        told = log.execute("SELECT * FROM sequitur_replay_actions ORDER BY at").fetchall()
    assert [each[3] for each in told] == ["preview", "start", "pause", "resume", "cancel"]
    assert all(each[4].startswith("ann by ") and each[5] == "a test" for each in told)
