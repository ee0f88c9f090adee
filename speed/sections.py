"""What longer runs measured stays on the page, each under the command that makes it, until that command runs again."""

from __future__ import annotations

import re
from pathlib import Path

MARK = "## `python -m speed "


def longer_sections(path: Path) -> dict[str, str]:
    """The sections of longer runs on a page, by heading, in order; none where there is no page."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    found = [part for part in re.split(r"^(?=## )", text, flags=re.MULTILINE) if part.startswith(MARK)]
    return {part.split("\n")[0]: part.rstrip() + "\n" for part in found}


def with_section(path: Path, names: str, body: str) -> str:
    """The page's text with the section of `python -m speed NAMES` replaced, or added at its end."""
    heading = f"{MARK}{names}`"
    old = longer_sections(path)
    text = path.read_text(encoding="utf-8").rstrip() + "\n"
    section = f"{heading}\n\n{body.strip()}\n"
    if heading in old:
        return text.replace(old[heading], section)
    return f"{text}\n{section}"
