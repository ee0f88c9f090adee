"""Marks names in tables that are too long for a column: the style sheet breaks those anywhere, and shorter ones nowhere."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx

LONG = 26  # characters without a space; what a column of three has room for


def mark(_: Sphinx, tree: nodes.document) -> None:
    for cell in tree.findall(nodes.entry):
        for name in cell.findall(nodes.literal):
            if max(map(len, name.astext().split()), default=0) > LONG:
                name["classes"].append("long")


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("doctree-read", mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
