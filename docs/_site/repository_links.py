"""Links from a page to a file of the repository that is no page: they lead somewhere in a checkout, here they are text."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

_LINK = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+(?!tutorials|how-to|reference|explanation|pictures)[^)#\s]+)\)")


def unlink(app: Sphinx, docname: str, source: list[str]) -> None:
    """Show the link's text alone; its target must exist."""
    here = (Path(app.srcdir) / docname).parent

    def plain(found: re.Match[str]) -> str:
        if not (here / found[2]).resolve().exists():
            raise FileNotFoundError(f"{docname} links to {found[2]}, which does not exist.")
        return found[1]

    source[0] = _LINK.sub(plain, source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", unlink)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
