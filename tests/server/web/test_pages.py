"""The pages: nothing inline, nothing from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sparcal.server.web import pages


@pytest.mark.parametrize("page", ["/judge", "/new", "/lots", "/api/docs"])
def test_pages_hold_no_inline_code_and_name_no_other_place(client, page):
    text = client.get(page).text
    assert not re.search(r"<script(?![^>]*\bsrc=)[^>]*>|<style|\son\w+=|\sstyle=|javascript:", text)
    assert not re.findall(r"(?:src|href|action)=\"(?:https?:)?//", text)
    for asset in re.findall(r"(?:src|href)=\"(/static/[^\"]+)\"", text):
        assert client.get(asset).status_code == 200


def test_static_files_name_no_other_place():
    for path in (Path(pages.__file__).parent / "static").iterdir():
        found = set(re.findall(r"https?://[^\s\"')]+", path.read_text(encoding="utf-8")))
        assert found <= {"http://www.w3.org/2000/svg"}, path


@pytest.mark.parametrize(
    "path", ["/static/../security.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd"]
)
def test_static_files_stay_in_their_folder(client, path):
    assert client.get(path).status_code == 404


def test_no_page_speaks_in_words_that_need_a_statistician():
    folder = Path(pages.__file__).parent
    files = [*folder.glob("templates/*.html"), *folder.glob("static/*.js")]
    assert files
    for path in files:
        text = path.read_text(encoding="utf-8")
        found = re.findall(
            r"spreads|energy removed|\blift\b|training mean|\bidentity\b|left out in turn|\bidle\b", text, re.I
        )
        assert found == [], path
