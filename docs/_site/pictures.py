"""The pictures of the web station, taken by walking through its tutorial: `make pictures`, a few minutes.

    python docs/_site/pictures.py [--work FOLDER]

Renders the tutorial's line, fits its station, serves it, and does with a real browser what the page tells its reader
to do. The pictures go to docs/pictures. The others there come from `sparcal demo` (before_after.jpg) and from
`python -m speed.studies.challenge` (self-test.jpg, a picture of the page that it names).
"""

from __future__ import annotations

import argparse
import io
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from sparcal.rendering.line import write_line
from sparcal.station.station import Station
from tests.support.browsing import sign
from tests.support.served import serve
from tests.system.conftest import BROWSERS, FLAGS

PICTURES = ROOT / "docs" / "pictures"
PATIENCE_MS = 300_000


def take(page: Page, name: str, theme: str, *, height: int = 860) -> None:
    """One picture of the page's upper part, as a JPEG that a page can carry."""
    page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    page.mouse.move(0, 0)
    page.wait_for_timeout(400)
    pixels = Image.open(io.BytesIO(page.screenshot(full_page=True))).convert("RGB")
    pixels.crop((0, 0, pixels.width, min(height, pixels.height))).save(
        PICTURES / f"{name}.jpg", quality=82, optimize=True
    )


def walk(page: Page, line: Path) -> None:
    """The tutorial, step by step."""
    page.goto("/new")
    page.get_by_label("Lot name").fill("L42")
    page.get_by_role("button", name="Begin").click()
    expect(page.locator("#mark")).to_be_visible(timeout=PATIENCE_MS)
    page.locator("#drop input[type=file]").set_input_files(sorted((line / "normals").iterdir()))
    expect(page.locator(".thumb img")).to_have_count(8, timeout=PATIENCE_MS)
    for thumb in page.locator(".thumb").all():
        thumb.click()
    expect(page.locator("#checks .chip.ok").first).to_be_visible(timeout=PATIENCE_MS)
    page.evaluate("window.scrollTo(0, 0)")
    take(page, "web-new-light", "light")

    page.locator("#calibrate").click()
    sign(page, "Ada", "Calibrate")
    expect(page.locator("#result")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator("#compare figure")).to_have_count(8, timeout=PATIENCE_MS)
    for picture in page.locator("#compare img").all():
        picture.scroll_into_view_if_needed()
        expect(picture).to_have_js_property("complete", True)
    page.evaluate("window.scrollTo(0, 0)")
    take(page, "web-result-dark", "dark", height=1980)
    page.keyboard.press("a")
    sign(page, "Ada", "Accept")
    expect(page.locator("#decided")).to_contain_text("Accepted")

    page.goto("/judge")
    page.locator("#drop input[type=file]").set_input_files(sorted((line / "lot").iterdir()))
    expect(page.locator("#list button")).to_have_count(24, timeout=PATIENCE_MS)
    page.locator("#order").select_option("worst")
    page.wait_for_timeout(1000)
    page.locator("#list button").nth(3).click()
    page.wait_for_function("document.querySelector('#viewer .heat').naturalWidth > 0")
    take(page, "web-judge-light", "light", height=1274)

    page.goto("/report?lot=L42")
    expect(page.locator("h1, h2").first).to_contain_text(re.compile("L42"))
    take(page, "web-report-light", "light")


def stop(page: Page, line: Path) -> None:
    """Another lot, with a part among the good ones that a check says stop to."""
    page.goto("/new")
    page.get_by_label("Lot name").fill("L43")
    page.get_by_role("button", name="Begin").click()
    expect(page.locator("#mark")).to_be_visible(timeout=PATIENCE_MS)
    normals = sorted((line / "normals").iterdir())
    with Image.open(normals[0]) as part:
        part.paste((235, 225, 40), (64, 64, 107, 128))
        smeared = io.BytesIO()
        part.save(smeared, "PNG")
    files = [{"name": path.name, "mimeType": "image/png", "buffer": path.read_bytes()} for path in normals[1:]]
    files.append({"name": "smeared.png", "mimeType": "image/png", "buffer": smeared.getvalue()})
    page.locator("#drop input[type=file]").set_input_files(files)  # type: ignore[arg-type]
    expect(page.locator(".thumb img")).to_have_count(8, timeout=PATIENCE_MS)
    for thumb in page.locator(".thumb").all():
        thumb.click()
    expect(page.locator("#checks li.stop").first).to_be_visible(timeout=PATIENCE_MS)
    page.locator("#calibrate").click()
    sign(page, "Ada", "Calibrate")
    expect(page.locator("#stops li").first).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator("#compare figure")).to_have_count(8, timeout=PATIENCE_MS)
    page.evaluate("window.scrollTo(0, 0)")
    take(page, "web-stop-light", "light")


def watch(page: Page, line: Path, folder: Path) -> None:
    """Yesterday's parts arrive in the watched folder, then those of the lot, under a lamp that the station does not know."""
    for path in sorted((line / "yesterday").iterdir()):
        shutil.copy(path, folder / f"yesterday_{path.name}")
    page.goto("/judge")
    expect(page.locator("#list button")).to_have_count(16, timeout=PATIENCE_MS)
    take(page, "web-watch-dark", "dark")
    for path in sorted((line / "lot").iterdir()):
        shutil.copy(path, folder / f"lot_{path.name}")
    expect(page.locator("#list button")).to_have_count(40, timeout=PATIENCE_MS)
    expect(page.locator("#alarm-parts img")).to_have_count(6, timeout=PATIENCE_MS)
    expect(page.locator("#queue-text")).to_have_text("Queue: empty", timeout=PATIENCE_MS)
    take(page, "web-alarm-light", "light", height=1330)


@contextmanager
def opened(station: Path, folder: Path, *options: str) -> Iterator[Page]:
    """A browser before a copy of a station, as if nobody had ever opened it."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(station, folder / station.name)
    browser_path = next(found for name in BROWSERS if (found := shutil.which(name)))
    with serve(folder / station.name, *options) as running, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=list(FLAGS))
        page = browser.new_context(base_url=running.address, viewport={"width": 1280, "height": 860}).new_page()
        page.set_default_timeout(PATIENCE_MS)
        yield page
        browser.close()


def main() -> None:
    """Take them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="a folder to keep the line and its station in; usually thrown away")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = asked.work or Path(temporary)
        line, station = work / "line", work / "press-3"
        if not line.exists():
            write_line(line)
        if not station.exists():
            Station.fit(line / "train/good", "patchcore", path=station, encoder="bundled")
        with opened(station, work / "web") as page:
            walk(page, line)
            stop(page, line)
        folder = work / "in"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        with opened(station, work / "watching", "--watch", str(folder)) as page:
            watch(page, line, folder)


if __name__ == "__main__":
    main()
