"""Notebooks as pages: a line `<!-- notebook: NAME -->` becomes examples/NAME.ipynb with its kept outputs while building."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

EXAMPLES = Path(__file__).parents[2] / "examples"
PICTURES = ("image/png", "image/jpeg")


def notebook_page(name: str) -> str:
    """A notebook as Markdown: its text, its code, and what each cell showed."""
    path = EXAMPLES / f"{name}.ipynb"
    return "\n\n".join(_cells(json.loads(path.read_text(encoding="utf-8"))))


def _cells(notebook: dict[str, Any]) -> Iterator[str]:
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield text
            continue
        yield f"```python\n{text}\n```"
        for output in cell["outputs"]:
            yield _shown(output)


def _shown(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        return _printed("".join(output["text"]))
    data = output["data"]
    if "text/html" in data:
        page = "".join(data["text/html"]).replace("<th></th>", "<td></td>")  # the empty corner of a table heads nothing
        return _raw(f'<div class="shown" role="group" tabindex="0" aria-label="output">{page}</div>')
    for kind in PICTURES:
        if kind in data:
            address = f"data:{kind};base64,{''.join(data[kind]).replace(chr(10), '')}"
            return _raw(f'<img class="shown" alt="the plot that the code above draws" src="{address}">')
    return _printed("".join(data["text/plain"]))


def _printed(text: str) -> str:
    return _raw(f'<pre class="shown" tabindex="0">{escape(text.rstrip())}</pre>')


def _raw(html: str) -> str:
    """HTML that the Markdown reader hands through: a blank line would end it."""
    lines = "\n".join(line for line in html.splitlines() if line.strip())
    return f"```{{raw}} html\n{lines}\n```"


def fill(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the notebook in the place of its line."""
    found = re.search(r"<!-- notebook: (\w+) -->", source[0])
    if found:
        app.env.note_dependency(str(EXAMPLES / f"{found[1]}.ipynb"), docname=docname)
        source[0] = source[0].replace(found[0], notebook_page(found[1]))


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
