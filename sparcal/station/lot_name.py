"""Lot names: any printable text, and the folder that stands for it."""

from __future__ import annotations

import unicodedata
from hashlib import sha256
from urllib.parse import quote

from sparcal.errors import DataError
from sparcal.settings import text

LONGEST = 200
_JOINER = "\u200d"  # holds emoji together


def clean_name(lot: str) -> str:
    """A lot's name in one spelling, or a DataError for what cannot be one."""
    text(lot, "A lot's name", hint="put it in quotes")
    name = unicodedata.normalize("NFC", lot).strip()
    if not name or name in {".", ".."}:
        raise DataError(
            f"A lot needs a name of at least one character, other than . and .., got {lot!r}: name the lot."
        )
    if len(name) > LONGEST:
        raise DataError(f"A lot's name may have {LONGEST} characters, got {len(name)}: shorten it.")
    for character in name:
        if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and character != _JOINER:
            raise DataError(
                f"A lot's name must be printable, got {lot!r} with U+{ord(character):04X}: leave that character out."
            )
    return name


def folder_name(lot: str) -> str:
    """The folder of a lot: its name, with everything that a file system could misread percent-encoded."""
    name = clean_name(lot)
    coded = quote(name, safe=" ()+,=@").replace("~", "%7E")
    if coded.startswith("."):
        coded = f"%2E{coded[1:]}"
    if len(coded) > LONGEST:  # file systems end at 255 bytes; the name itself is kept in lot.json
        coded = f"{coded[:LONGEST]}~{sha256(name.encode()).hexdigest()[:16]}"
    return coded
