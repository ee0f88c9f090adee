"""How soon the pages of a station with a long past stand in a browser: from the request to the last picture in view.

Thousands of verdicts are written into the database of a station that has really judged a few dozen parts; theirs are the
newest, so these are what the page lists and shows. The older ones have scores, readings of the monitor and decisions, as
judged parts have, and pictures that were removed to make room.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from datetime import datetime
from hashlib import sha256
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, sync_playwright

from tests.system.conftest import BROWSERS, FLAGS

READY = {
    "judge": "document.querySelectorAll('#list button').length > 0 && document.querySelector('#viewer .picture').naturalWidth > 0"
    " && document.querySelectorAll('#chart circle').length > 0",
    "lots": "document.querySelectorAll('#lots tr').length > 0 && document.querySelectorAll('#days tr').length > 0"
    " && document.querySelectorAll('#trail li').length > 0",
}
DECIDED = 20  # one part in so many was looked at by somebody


def grow(database: Path, count: int, *, lot: str) -> None:
    """Write an older past into a station that is not served, until `lot` has judged `count` parts.

    The parts that it has really judged get the highest numbers, so they stay the newest; the others came between the
    activation of the lot and the first of them.
    """
    with sqlite3.connect(database) as connection:
        connection.row_factory = sqlite3.Row
        kept = connection.execute("SELECT * FROM scores WHERE lot = ? ORDER BY id", (lot,)).fetchall()
        since = connection.execute("SELECT max(at) AS at FROM decisions WHERE kind = 'accept'").fetchone()["at"]
        reading = connection.execute("SELECT reading FROM readings LIMIT 1").fetchone()["reading"]
        older = count - len(kept)
        connection.execute("PRAGMA foreign_keys = OFF")
        for table, column in (("scores", "id"), ("readings", "score"), ("alarms", "first"), ("alarms", "last")):
            connection.execute(f"UPDATE {table} SET {column} = {column} + {10 * count}")
        from_, to = (datetime.fromisoformat(text) for text in (since, kept[0]["created"]))
        for number in range(1, older + 1):
            at = (from_ + (to - from_) * number / (older + 1)).isoformat(timespec="milliseconds")
            _write_part(connection, number, at, like=kept[number % len(kept)], reading=reading)


def _write_part(connection: sqlite3.Connection, number: int, at: str, *, like: sqlite3.Row, reading: str) -> None:
    sha = sha256(str(number).encode()).hexdigest()
    connection.execute(
        "INSERT INTO images SELECT ?, ?, bytes, kind, 'removed', width, height, NULL, ? FROM images WHERE sha = ?",
        (sha, f"part_{number:05d}.png", at, like["sha"]),
    )
    connection.execute(
        "INSERT INTO scores (id, sha, lot, score, threshold, verdict, created) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (number, sha, like["lot"], like["score"], like["threshold"], like["verdict"], at),
    )
    connection.execute("INSERT INTO readings VALUES (?, ?)", (number, reading))
    if number % DECIDED == 0:
        detail = json.dumps({"image": f"part_{number:05d}.png", "verdict": like["verdict"], "score": like["score"]})
        connection.execute(
            "INSERT INTO decisions (at, operator, kind, lot, score, detail) VALUES (?, 'A. Roth', 'confirm', ?, ?, ?)",
            (at, like["lot"], number, detail),
        )


def openings(address: str, paths: dict[str, str], *, times: int = 7) -> dict[str, list[float]]:
    """Seconds from the request until each page stands, in a browser that has never seen it, `times` times."""
    found: dict[str, list[float]] = {name: [] for name in paths}
    browser_path = next(place for name in BROWSERS if (place := shutil.which(name)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=list(FLAGS))
        _open(browser, address, "judge", paths["judge"])  # the browser itself is new too: that is not the station's
        for _ in range(times):
            for name, path in paths.items():
                found[name].append(_open(browser, address, name, path))
        browser.close()
    return found


def slow_pages(found: dict[str, list[float]], *, limit: float) -> list[str]:
    """Why the openings prove nothing, or that a page is too slow."""
    sentences = [f"The page {name} was never opened." for name, seconds in found.items() if not seconds]
    return sentences + [
        f"The page {name} stood after {np.median(seconds):.2f} s, {limit:g} s are allowed."
        for name, seconds in found.items()
        if seconds and np.median(seconds) > limit
    ]


def _open(browser: Browser, address: str, name: str, path: str) -> float:
    # The pages forbid scripts from elsewhere, and the question whether the page stands is one.
    context = browser.new_context(base_url=address, viewport={"width": 1366, "height": 768}, bypass_csp=True)
    page = context.new_page()
    page.goto(path, wait_until="commit")
    milliseconds = page.wait_for_function(f"{READY[name]} && performance.now()", polling="raf").json_value()
    context.close()
    return float(milliseconds) / 1000
