"""All texts can be read, light and dark: WCAG 2.2, level AA."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.apps.sequitur.console.conftest import Operated

pytestmark = pytest.mark.integration

PAGES = ("/", "/view?name=mail", "/gaps", "/stream?id=order-8", "/failures", "/lateness", "/audit",
         "/read-store", "/delivery", "/units", "/routing", "/sites", "/replay")  # fmt: skip
# What can be read at all, with the colour behind it: of the nearest elements that have one, each
# over the one below. What is drawn, and what is off, is not asked for by WCAG 1.4.3.
POOR = """() => {
  const parts = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const over = (top, below) => {
    const a = top.length > 3 ? top[3] : 1;
    return [0, 1, 2].map((n) => top[n] * a + below[n] * (1 - a));
  };
  const light = (colour) => colour.map((part) => part / 255)
    .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, n) => sum + part * [0.2126, 0.7152, 0.0722][n], 0);
  const behind = (element) => {
    if (!element) return [255, 255, 255];
    return over(parts(getComputedStyle(element).backgroundColor), behind(element.parentElement));
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    const style = getComputedStyle(element);
    if (!own || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) {
      continue;
    }
    if (element.closest("[aria-hidden=true], script, style, [disabled], .sr-only")) continue;
    let opacity = 1;
    for (let one = element; one; one = one.parentElement) opacity *= getComputedStyle(one).opacity;
    const below = behind(element), colour = parts(style.color);
    colour[3] = (colour.length > 3 ? colour[3] : 1) * opacity;
    const [low, high] = [light(over(colour, below)), light(below)].sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05);
    const size = parseFloat(style.fontSize), bold = style.fontWeight >= 600;
    const wanted = size >= 24 || (bold && size >= 18.66) ? 3 : 4.5;
    if (ratio < wanted) {
      found.push(`${ratio.toFixed(2)} ${element.className}: ${element.innerText.slice(0, 40)}`);
    }
  }
  return found;
}"""


def poor(page: Page) -> list[str]:
    """What cannot be read well, light or dark."""
    found = list[str]()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        expect(page.locator("body")).to_have_class(re.compile(f"body--{scheme}"))
        # Colours go over from one scheme to the other; what counts is where they arrive.
        for _ in range(600):
            if not (left := page.evaluate(POOR)):
                break
            page.wait_for_timeout(100)
        found += [f"{scheme}: {each}" for each in left]
    return found


def test_every_text_stands_out_from_what_is_behind_it(signed_in: Page, operated: Operated) -> None:
    page, found = signed_in, list[str]()
    for path in PAGES:
        page.goto(operated.url + path)
        # What is read on its own may take longer, and looks no different.
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.get_by_text("reading …").first).to_be_hidden()
        found += [f"{path} {each}" for each in poor(page)]
    page.goto(f"{operated.url}/view?name=mail")
    page.get_by_role("button", name="Halt").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Halt")).to_be_enabled()
    found += [f"dialog {each}" for each in poor(page)]
    assert found == []
    # The measure is one: what is made poor is found.
    page.add_style_tag(content="h1 * { color: #888 !important; background: #999 !important }")
    assert len(page.evaluate(POOR)) == 1
