"""Equations as MathML, written while the site is built: browsers draw it without a script.

A browser without a font for equations sets indices beside instead of below, so the site brings one.
"""

from __future__ import annotations

import re
from html import escape

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

_TAG = re.compile(r"\\tag\{(.+?)\}")


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def visit_block(self: HTML5Translator, node: nodes.math_block) -> None:
    text = node.astext()
    formula = _TAG.sub("", text)
    number = "".join(f'<span class="number">({found})</span>' for found in _TAG.findall(text))
    drawn = convert(formula, display="block")
    label = escape(formula.strip(), quote=True)
    self.body.append(
        f'<div class="equation"><div role="group" tabindex="0" aria-label="{label}">{drawn}</div>{number}</div>\n'
    )
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
