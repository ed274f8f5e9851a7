"""What pages look like, and how a keyboard keeps its place in them."""

# In the library's layer for this, as what is important elsewhere would win over it.
STYLE = """
@layer overrides {
:root { color-scheme: light dark; }
body { font-family: system-ui, sans-serif; --q-primary: #1d5fa8 !important; }
body.body--dark { --q-primary: #8ab8f0 !important; }
.body--dark .q-btn.bg-primary { color: #121212 !important; }
.q-btn.disabled { opacity: .75 !important; }
.q-btn--dense { padding: .15rem .6rem; }
.q-field__label { color: #444; } .body--dark .q-field__label { color: #ccc; }
header { background: #1e3a5f !important; }
h1 { font-size: 1.6rem; font-weight: 600; line-height: 2rem; margin: 0; }
h2 { font-size: 1.15rem; font-weight: 600; line-height: 1.6rem; margin: 1.2rem 0 .3rem; }
.q-card { gap: .6rem; } .q-card h2 { margin: 0; }
a { color: inherit; }
:focus-visible { outline: 3px solid #f59e0b; outline-offset: 2px; }
pre, .mono { font-family: ui-monospace, monospace; font-size: .85rem; white-space: pre-wrap;
  overflow-wrap: anywhere; margin: 0; }
.isolated { unicode-bidi: isolate; direction: ltr; }
.good { border-left: .4rem solid #15803d; padding: .3rem .8rem; }
.bad { border-left: .4rem solid #b91c1c; padding: .3rem .8rem; }
.facts { display: grid; grid-template-columns: max-content 1fr; gap: .2rem .8rem; margin: 0;
  width: 100%; font-size: .85rem; overflow-wrap: anywhere; }
.facts dt { opacity: .8; } .facts dd { margin: 0; }
.strip { display: flex; flex-wrap: wrap; gap: 2px; list-style: none; padding: 0; margin: .4rem 0; }
.strip li { padding: .1rem .5rem; border-radius: .2rem; color: #fff; background: #475569; }
.strip .handled { background: #15803d; } .strip .waiting { background: #1d4ed8; }
.strip .missing { background: #fff; color: #7f1d1d; outline: 2px dashed #b91c1c;
  outline-offset: -2px; }
.strip .late { background: #a16207; } .strip .failed, .strip .dead { background: #b91c1c; }
.strip .parked { background: #7e22ce; } .strip .skipped { background: #57534e; }
.bar { background: #1d4ed8; height: 1rem; min-width: 2px; }
.body--dark .bar { background: #60a5fa; }
.graph { background: #fff; } .body--dark .graph { filter: invert(.9) hue-rotate(180deg); }
}
"""

# What has changed is made anew. Who had the focus there is given it back.
FOCUS = """<script>
(() => {
  const name = (e) => [e.tagName, e.getAttribute("href"), e.getAttribute("aria-label"),
    e.textContent].join("|");
  let last = null, lost = null;
  addEventListener("focusin", (e) => { last = e.target; lost = name(last); });
  addEventListener("pointerdown", () => { last = null; });
  new MutationObserver(() => {
    if (!last || last.isConnected || document.activeElement !== document.body) return;
    const again = [...document.querySelectorAll("a, button, input")].find((e) => name(e) === lost);
    if (again) again.focus({ preventScroll: true });
  }).observe(document, { childList: true, subtree: true });
})();
</script>"""
