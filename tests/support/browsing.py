"""What browser tests share: files to drop, pictures of a page in both themes, and the operator's name."""

from __future__ import annotations

import time

from axe_playwright_python.sync_playwright import Axe

# How long a browser test waits for what must come. It is no assertion: a machine with other work takes minutes for seconds.
PATIENT_MS = 180_000


def patient_context(browser, **options):
    """A browser of its own that waits for what must come; `expect` does so by the options of the chromium fixture."""
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENT_MS)
    return context


def as_files(parts):
    """Named contents as a file dialog takes them."""
    return [{"name": name, "mimeType": "image/png", "buffer": content} for name, content in parts]


GRAVE = ("serious", "critical")


def photograph(page, album, name, *, impacts=GRAVE, themes=("dark", "light")):
    """Whole pages in these themes, the last of which stays; and no finding of axe that weighs as much as one of `impacts`."""
    for theme in themes:
        page.emulate_media(color_scheme=theme)
        page.wait_for_timeout(200)
        page.screenshot(path=album / f"{name}-{theme}.png", full_page=True)
        findings = Axe().run(page).response["violations"]
        grave = [(f["id"], [n["target"] for n in f["nodes"]][:3]) for f in findings if f["impact"] in impacts]
        assert grave == [], f"{name}, {theme}"


def sign(page, name, button):
    dialog = page.locator("#sign")
    dialog.get_by_label("Your name").fill(name)
    dialog.get_by_role("button", name=button).click()


def in_view(page, selector):
    """Whether all of an element comes to be seen and clicked without scrolling; a page is laid out as answers arrive."""
    deadline = time.monotonic() + PATIENT_MS / 1000
    while time.monotonic() < deadline:
        box, size = page.locator(selector).bounding_box(), page.viewport_size
        if (
            box
            and box["y"] >= 0
            and box["y"] + box["height"] <= size["height"]
            and box["x"] + box["width"] <= size["width"]
        ):
            return True
        page.wait_for_timeout(100)
    return False
