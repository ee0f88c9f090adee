"""The words on a printed page: enough of a PDF reader for what Chromium writes.

It reads the streams that are compressed with zlib, the map from glyphs to letters that each font brings along, and the
operators that show text.
"""

from __future__ import annotations

import re
import unicodedata
import zlib

_OBJECT = re.compile(rb"(\d+) 0 obj\b(.*?)\bendobj", re.DOTALL)
_STREAM = re.compile(rb"(.*?)\bstream\r?\n(.*)\r?\nendstream", re.DOTALL)
_PAGE = re.compile(rb"/Type\s*/Page\b")
_LETTER = re.compile(rb"<(\w+)>\s*<(\w+)>")
_RANGE = re.compile(rb"<(\w+)>\s*<(\w+)>\s*<(\w+)>")
# A font, the glyphs shown, a step within the text, the end of a piece of text.
_SHOWN = re.compile(rb"/(?P<font>\w+) [-\d.]+ Tf|<(?P<glyphs>\w+)> Tj|(?P<down>[-\d.]+) Td\b|(?P<end>\bET\b)")


def pages_of(paper: bytes) -> int:
    """How many sheets."""
    return len(_PAGE.findall(paper))


def text_of(paper: bytes) -> str:
    """All that is written on the pages, in the order it was drawn, with single spaces."""
    objects = {int(number): body for number, body in _OBJECT.findall(paper)}
    fonts = {number: _letters(objects, body) for number, body in objects.items() if b"/ToUnicode" in body}
    text = " ".join(_page(objects, fonts, body) for body in objects.values() if _PAGE.search(body))
    return " ".join(unicodedata.normalize("NFKC", text).split())


def _content(body: bytes) -> bytes:
    found = _STREAM.match(body)
    assert found, "a stream was expected"
    head, data = found.groups()
    return zlib.decompress(data) if b"/FlateDecode" in head else data


def _letters(objects: dict[int, bytes], font: bytes) -> dict[int, str]:
    """Glyph number to letters, from the font's ToUnicode map."""
    table = _content(objects[int(re.search(rb"/ToUnicode (\d+)", font)[1])])
    found: dict[int, str] = {}
    for block in re.findall(rb"beginbfchar(.*?)endbfchar", table, re.DOTALL):
        found |= {int(glyph, 16): _utf16(letters) for glyph, letters in _LETTER.findall(block)}
    for block in re.findall(rb"beginbfrange(.*?)endbfrange", table, re.DOTALL):
        for first, last, letters in _RANGE.findall(block):
            for offset in range(int(last, 16) - int(first, 16) + 1):
                found[int(first, 16) + offset] = chr(ord(_utf16(letters)) + offset)
    return found


def _utf16(digits: bytes) -> str:
    return bytes.fromhex(digits.decode()).decode("utf-16-be")


def _page(objects: dict[int, bytes], fonts: dict[int, dict[int, str]], body: bytes) -> str:
    named = {name: int(number) for name, number in re.findall(rb"/(F\d+) (\d+) 0 R", body)}
    drawn = _content(objects[int(re.search(rb"/Contents (\d+)", body)[1])])
    text, letters = [], {}
    for found in _SHOWN.finditer(drawn):
        if found["font"]:
            letters = fonts[named[found["font"]]]
        elif found["glyphs"]:
            glyphs = [int(found["glyphs"][i : i + 4], 16) for i in range(0, len(found["glyphs"]), 4)]
            text += [letters[glyph] for glyph in glyphs]
        elif found["end"] or float(found["down"]):  # a step along the line is kerning, spaces are glyphs
            text.append(" ")
    return "".join(text)
