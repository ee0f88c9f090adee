"""A folder as people have them: images, files that are none, and junk of the system."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image


def picture(value, h=20, w=20):
    return np.full((h, w, 3), value, dtype=np.uint8)


@pytest.fixture
def folder(tmp_path):
    """Ten readable images, three unreadable files, and things that are no images."""
    for number in range(10):
        Image.fromarray(picture(20 * number)).save(tmp_path / f"part_{number}.png")
    (tmp_path / "part_0b.png").write_bytes(b"")
    (tmp_path / "part_4b.jpg").write_text("not an image")
    (tmp_path / "part_9b.bmp").write_bytes((tmp_path / "part_9.png").read_bytes()[:60])
    (tmp_path / "notes.txt").write_text("lot 42")
    (tmp_path / "._part_1.png").write_bytes(b"junk of another system")
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "thumb.png").write_bytes(b"junk")
    return tmp_path
