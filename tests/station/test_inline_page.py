"""Pages in one file: the shared style inside, pictures as data that decode again."""

from __future__ import annotations

import base64
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from sparcal.station.inline_page import jpeg_uri, write_inline_page


def test_a_missing_value_is_not_passed_over(tmp_path):
    with pytest.raises(KeyError):
        write_inline_page(tmp_path / "page.html", "self_test_page.html", {"title": "x"})
    assert list(tmp_path.glob("*.html")) == []


def test_a_picture_survives():
    image = Image.fromarray(np.full((20, 30, 3), 128, np.uint8))
    kind, data = jpeg_uri(image, quality=90).split(",")
    assert kind == "data:image/jpeg;base64"
    again = Image.open(BytesIO(base64.b64decode(data)))
    assert again.size == (30, 20)
    assert abs(int(np.asarray(again).mean()) - 128) <= 1
