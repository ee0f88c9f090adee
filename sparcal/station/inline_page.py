"""Self-contained pages: one look, light and dark, pictures inside the file, no outside request."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from string import Template

from PIL import Image

from sparcal.files.atomic import atomic_path
from sparcal.files.names import visible


def write_inline_page(path: Path, template: str, values: Mapping[str, object]) -> Path:
    """Fill a template of this room, with the shared style as `$look`, and write it.

    Args:
        template: name of the file beside this one.
    """
    here = files("sparcal.station")
    look = here.joinpath("inline_page.css").read_text(encoding="utf-8")
    page = Template(here.joinpath(template).read_text(encoding="utf-8")).substitute(values, look=look)
    with atomic_path(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return path


def in_html(text: str) -> str:
    """A text, for instance a name, as it stands in a page: no markup, and nothing that cannot be seen."""
    return escape(visible(text))


def jpeg_uri(image: Image.Image, *, quality: int = 78) -> str:
    """An image as a data address."""
    buffer = BytesIO()
    image.save(buffer, format="JPEG", quality=quality)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"
