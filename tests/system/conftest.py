"""A real Chromium, for the web station and for the documentation."""

from __future__ import annotations

import os
import shutil

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.support.browsing import PATIENT_MS

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def chromium():
    if os.environ.get("SPARCAL_NO_BROWSER"):
        pytest.skip("SPARCAL_NO_BROWSER is set")
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    assert path, f"The web tests need one of {', '.join(BROWSERS)}: run make browser, or set SPARCAL_NO_BROWSER=1."
    expect.set_options(timeout=PATIENT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()
