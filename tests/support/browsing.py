"""What browser tests share: files to drop, pictures of a page in both themes, and the operator's name."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe

SLOW_MS = 40_000  # what a worker may take for a handful of parts


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
