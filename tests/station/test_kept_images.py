"""Images kept beside a lot: the same pixels come back, and what was changed since is refused."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from sparcal.errors import ArtifactError
from sparcal.files.hashing import file_digest
from sparcal.imaging.decode import open_image
from sparcal.station.kept_images import keep_images, kept_images
from tests.support.tiny_station import demo, pictures

PICTURES = pictures(demo().train[:12])


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "kept"
    made.mkdir()
    return made


def test_images_in_memory_keep_their_pixels_and_their_order(folder):
    files = keep_images(folder, PICTURES)
    paths = kept_images(folder, {**files, "reference.safetensors": "x"})
    assert [path.name for path in paths] == [f"part-{i:03d}.png" for i in range(12)]
    for path, image in zip(paths, PICTURES, strict=True):
        assert np.array_equal(np.asarray(open_image(path)), image)


def test_a_file_is_kept_byte_for_byte(folder, tmp_path):
    source = tmp_path / "A part.JPG"
    Image.fromarray(PICTURES[0]).save(source, quality=80)
    files = keep_images(folder, [source, str(source)])
    assert list(files) == ["part-000.jpg", "part-001.jpg"]
    assert set(files.values()) == {file_digest(source)}
    assert (folder / "part-000.jpg").read_bytes() == source.read_bytes()


def test_nothing_kept_is_nothing_found(folder):
    assert keep_images(folder, []) == {}
    assert kept_images(folder, {"reference.safetensors": "x"}) == []


@pytest.mark.parametrize("damage", ["changed", "gone"])
def test_what_is_not_as_it_was_written_is_refused(folder, damage):
    files = keep_images(folder, PICTURES[:2])
    if damage == "gone":
        (folder / "part-001.png").unlink()
    else:
        (folder / "part-001.png").write_bytes(b"other")
    with pytest.raises(ArtifactError) as caught:
        kept_images(folder, files)
    assert str(caught.value) == (
        f"{folder / 'part-001.png'} was expected to be as it was written, got a missing or changed file: restore it from a "
        "copy, or calibrate again under another name."
    )
