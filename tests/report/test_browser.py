"""The page in a real browser: headless Chromium, narrow and wide, light and dark.

Skipped, with the reason, where no browser is found.
"""

from __future__ import annotations

import pytest

from fastdp.report import page as report

from . import chromium, pages

EXECUTABLE = chromium.find()
pytestmark = pytest.mark.skipif(
    EXECUTABLE is None, reason="no Chromium or Chrome found: the report was not looked at"
)

# Whatever sticks out to the right of the window, unless it scrolls inside its own box.
OUTSIDE = """[...document.querySelectorAll('body *')].filter(e => {
  const box = e.getBoundingClientRect();
  return box.width > 0 && box.right > innerWidth + 1 && !e.closest('.scroll, .picker, .skip, #tip');
}).map(e => e.outerHTML.slice(0, 100))"""

# Contrast of text against the first opaque background behind it, by the formula of WCAG 2.
CONTRAST = """(() => {
  const channels = (c) => c.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const f = (v) => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
    return .2126 * f(r) + .7152 * f(g) + .0722 * f(b); };
  const low = [];
  const texts = 'h1,h2,h3,p,li,td,th,small,figcaption,b,.ends span,.name,.value,.peak,nav a,summary,em,'
    + '.banner';
  for (const e of document.querySelectorAll(texts)) {
    if (!e.getClientRects().length || !e.textContent.trim()) continue;
    let under = e, back = null;
    for (; under; under = under.parentElement) {
      back = channels(getComputedStyle(under).backgroundColor);
      if (back.length < 4 || back[3] > 0) break;
    }
    const a = light(channels(getComputedStyle(e).color)), b = light(back);
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) low.push([e.className || e.tagName, e.textContent.slice(0, 40), ratio]);
  }
  return low;
})()"""


@pytest.fixture(scope="module")
def browser():
    with chromium.Browser(EXECUTABLE) as window:
        yield window


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    two = {"adagrid, ε = 1": pages.table(seed=1, tilt=1.3), "adagrid, ε = 10": pages.table(seed=2)}
    paths = {name: folder / f"{name}.html" for name in ("one", "two", "public", "incidents", "bare")}
    report.write(paths["one"], pages.table(), pages.table(seed=1), None, pages.scores(), pages.run())
    report.write(
        paths["two"],
        pages.table(),
        two,
        None,
        [pages.scores(600), pages.scores(790)],
        [pages.run(), pages.run()],
    )
    report.write(paths["public"], None, pages.table(seed=1), None, None, pages.run(), without_truth=True)
    report.write(paths["incidents"], pages.incidents(), pages.incidents(2500, 1))
    report.write(paths["bare"], pages.table(0), pages.table(0))
    return paths


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("name", ["one", "two", "public", "incidents", "bare"])
def test_page_loads_quietly_and_fits(browser, written, name, width, theme):
    browser.open(written[name], width, 900, theme)
    assert browser.complaints == []
    assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run(OUTSIDE) == []
    assert browser.run(CONTRAST) == []
    shade = browser.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]")
    assert (shade < 60) == (theme == "dark")


def test_plots_are_drawn(browser, written):
    browser.open(written["one"])
    seen = (
        "[...document.querySelectorAll('%s')].map(e => e.getBoundingClientRect())"
        ".filter(b => b.width + b.height > 0).length"
    )
    assert browser.run(seen % "#columns svg.hist path.t, #columns svg.bar rect.t") >= 5
    assert browser.run(seen % "#columns .sl") >= 5
    assert browser.run(seen % "#pairs rect.cell") == 10
    assert browser.run(seen % "#areas rect.tile") == 3 * 78
    assert browser.run(seen % "#groups rect.tile") == 77
    assert browser.run(seen % "#users path.t") == 5
    assert browser.run(seen % "#noise circle.n") == 4
    assert browser.run(seen % "#fit path.stroke") == 1
    assert browser.run(seen % "#stages rect.n") == 4
    assert browser.run(seen % "#scores circle.s") >= 5
    browser.open(written["incidents"])
    assert browser.run(seen % "#months rect.tile") == 3 * 40 * 12
    browser.open(written["public"])
    assert browser.run(seen % "#columns path.s") >= 4
    assert browser.run(seen % "#columns path.e") >= 2


def test_first_screen_answers_both_questions(browser, written):
    for name, width, height in (("one", 1280, 900), ("one", 400, 1600)):
        browser.open(written[name], width, height)
        low = browser.run(
            "Math.max(...[...document.querySelectorAll('.hero .verdict')]"
            ".map(e => e.getBoundingClientRect().bottom))"
        )
        assert low < height


def test_tooltips_by_pointer_and_by_keys(browser, written):
    browser.open(written["one"])
    browser.run(
        "document.querySelector('#columns svg.hist').scrollIntoView({block: 'center', behavior: 'instant'})"
    )
    browser.run(
        "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))"
    )  # scrolling hides tips
    x, y = browser.run(
        "(b => [b.left + 3, b.top + 40])(document.querySelector('#columns svg.hist').getBoundingClientRect())"
    )
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    assert browser.run("document.getElementById('tip').hidden") is False
    assert browser.run("document.getElementById('tip').textContent").startswith("0\ntruth ")
    browser.run("document.querySelector('#areas svg.tiles').focus({preventScroll: true})")
    for _ in range(3):
        browser.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight", code="ArrowRight")
    assert browser.run("document.getElementById('tip').textContent").startswith("2 West Ridge\n")
    browser.call("Input.dispatchKeyEvent", type="keyDown", key="Escape", code="Escape")
    assert browser.run("document.getElementById('tip').hidden") is True
    assert browser.complaints == []


def test_theme_button_and_table_picker(browser, written):
    browser.open(written["two"], theme="dark")
    shade = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]"
    assert browser.run(shade) < 60
    browser.run("document.getElementById('theme').click()")
    assert browser.run(shade) > 200
    shown = "[...document.querySelectorAll('#columns .of')].map(e => e.getBoundingClientRect().height > 0)"
    assert browser.run(shown) == [True, False]
    browser.run("document.querySelectorAll('[data-pick]')[1].click()")
    assert browser.run(shown) == [False, True]
    assert browser.run("document.querySelectorAll('[data-pick]')[1].getAttribute('aria-pressed')") == "true"


def test_print_shows_every_table_in_light(browser, written):
    browser.open(written["two"], theme="dark")
    browser.call("Emulation.setEmulatedMedia", media="print")
    try:
        shown = (
            "[...document.querySelectorAll('#columns .of')].map(e => e.getBoundingClientRect().height > 0)"
        )
        assert browser.run(shown) == [True, True]
        assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")


def test_a_broken_page_would_be_caught(browser, written, tmp_path):
    """The checks themselves can fail: an error in the script, a load from outside, a wide element."""
    html = written["bare"].read_text(encoding="utf-8")
    bad = tmp_path / "bad.html"
    wide = "<div style='width:2000px'>wide</div><img src='http://localhost:9/x.png'>"
    html = html.replace("root.dataset.ready", "console.error('planted'); root.dataset.ready")
    bad.write_text(html.replace('<main id="main">', f'<main id="main">{wide}'), encoding="utf-8")
    browser.open(bad, 1280)
    assert any("planted" in c for c in browser.complaints)
    assert any("Content Security Policy" in c for c in browser.complaints)
    assert browser.run(OUTSIDE) != []
