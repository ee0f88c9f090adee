"""The documentation site: built strictly, read without a network, in both themes and on a phone, by everybody.

`make docs-check` builds it twice and compares the bytes.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

ROOT = Path(__file__).parents[3]
SHOWN = ("index", "explanation/method", "reference/python", "search")
THEMES = (("light", 1280), ("dark", 390))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """`make docs`, into another folder."""
    folder = tmp_path_factory.mktemp("docs")
    options = ["--quiet", "--fail-on-warning", "--keep-going", "--doctree-dir", str(folder / "trees")]
    command = [sys.executable, "-m", "sphinx", *options, str(ROOT / "docs"), str(folder / "site")]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder / "site"


def pages_of(site):
    return sorted(path for path in site.rglob("*.html") if "_static" not in path.parts)


def test_nothing_is_loaded_from_elsewhere(site):
    for page in pages_of(site):
        loaded = re.findall(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=\"([^\"]+)\"", page.read_text("utf-8"))
        assert [address for address in loaded if re.match(r"(https?:)?//", address)] == [], page.name


def test_every_page_can_be_reached_from_the_front(site):
    front = (site / "index.html").read_text("utf-8")
    for page in pages_of(site):
        name = page.relative_to(site).as_posix()
        assert f'href="{name}' in front or name in ("index.html", "search.html", "genindex.html", "py-modindex.html"), (
            name
        )


def test_the_program_is_in_the_reference(site):
    commands = (site / "reference/commands.html").read_text("utf-8")
    routes = (site / "reference/rest.html").read_text("utf-8")
    assert "sparcal calibrate" in commands
    assert "--false-reject" in commands
    assert "sparcal bench fidelity" in commands
    assert "/api/scores" in routes


def test_equations_are_mathml_with_the_numbers_of_the_paper(site):
    text = (site / "explanation/method.html").read_text("utf-8")
    assert text.count('<math xmlns="http://www.w3.org/1998/Math/MathML" display="block"') == 8
    assert re.findall(r'<span class="number">\((\d)\)</span>', text) == [str(number) for number in range(1, 9)]
    assert "\\tag" not in re.sub(r'aria-label="[^"]*"', "", text)


def look_at(chromium, site, pages):
    """No request beyond the disk, no script error, nothing wider than the window, no finding of axe."""
    for theme, width in THEMES:
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=theme, offline=True)
        page = context.new_page()
        troubles = []
        page.on("pageerror", lambda error, troubles=troubles: troubles.append(str(error)))
        page.on("request", lambda one, troubles=troubles: one.url.startswith("file:") or troubles.append(one.url))
        for path in pages:
            page.goto(path.as_uri())
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), f"{path}, {width}"
            found = [(f["id"], f["nodes"][0]["html"][:120]) for f in Axe().run(page).response["violations"]]
            assert found == [], f"{path.relative_to(site)}, {theme}, {width}"
        context.close()
        assert troubles == []


def test_pages_are_for_everybody(chromium, site):
    look_at(chromium, site, [site / f"{name}.html" for name in SHOWN])


@pytest.mark.slow
def test_all_pages_are_for_everybody(chromium, site):
    look_at(chromium, site, pages_of(site))


def test_the_search_finds_a_word_from_the_disk(chromium, site):
    page = chromium.new_context(offline=True).new_page()
    page.goto((site / "search.html").as_uri() + "?q=recentring")
    page.wait_for_selector("#search-results li")
    assert "recentring" in page.inner_text("#search-results").lower()
