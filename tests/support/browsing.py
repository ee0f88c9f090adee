"""What browser tests share: pictures of a page in both themes, and the operator's name."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe


def photograph(page, album, name):
    """Both themes, whole pages; and no serious finding of axe in either."""
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.wait_for_timeout(200)
        page.screenshot(path=album / f"{name}-{theme}.png", full_page=True)
        findings = Axe().run(page).response["violations"]
        grave = [
            (f["id"], [n["target"] for n in f["nodes"]][:3]) for f in findings if f["impact"] in ("serious", "critical")
        ]
        assert grave == [], f"{name}, {theme}"
    page.emulate_media(color_scheme="light")


def sign(page, name, button):
    dialog = page.locator("#sign")
    dialog.get_by_label("Your name").fill(name)
    dialog.get_by_role("button", name=button).click()
