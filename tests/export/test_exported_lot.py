"""An exported lot in the place of a station's: the same rows, files and refusals, wherever its state comes from."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from PIL import Image

from sparcal.errors import ArtifactError, DataError
from sparcal.export.exported_lot import exported_lots, model_file, open_exported
from sparcal.export.lot import export_model, export_state
from sparcal.imaging.read import read_batches
from tests.support.lot_models import calibrated, photographs


@pytest.fixture(scope="module")
def first():
    return calibrated("padim")


@pytest.fixture(scope="module")
def folder(first, tmp_path_factory):
    """A model of the lot L1, and the state of L2 beside it."""
    place = tmp_path_factory.mktemp("exported")
    export_model(first, place)
    export_state(calibrated("padim", lot="L2", seed=9), place / "L2.safetensors")
    return place


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    place = tmp_path_factory.mktemp("images")
    for number, pixels in enumerate((*photographs(2, seed=20), *photographs(2, seed=21, defects=True))):
        Image.fromarray(pixels).save(place / f"{number}.png")
    (place / "broken.png").write_bytes(b"no image")
    return sorted(place.iterdir())


def test_it_judges_as_the_library(first, folder, images):
    judged = {one.path: one for one in open_exported(folder).stream(images)}
    assert list(judged) == images
    for path in images[:4]:
        batch = next(read_batches([path], first.encoder.preprocess))
        score = float(first.score(batch.pixels)[0].image)
        one = judged[path]
        assert one.score == pytest.approx(score, rel=1e-3)
        assert one.threshold == pytest.approx(first.threshold, rel=1e-6)
        assert one.verdict == ("fail" if score > first.threshold else "pass")
        assert one.heat().shape == (72, 90)
        assert len(one.sha256) == 64
    failed = judged[images[4]]
    assert (failed.verdict, failed.score, failed.heat()) == ("error", None, None)
    assert "must be a readable PNG" in failed.reason


def test_lots_go_by_name(folder):
    assert exported_lots(model_file(folder)) == {"L1": None, "L2": folder / "L2.safetensors"}
    assert open_exported(folder).name == "L1"
    assert open_exported(folder / "model.onnx", "L2").name == "L2"
    with pytest.raises(DataError, match="judges by the lots L1, L2, got 'L3': write its state into that folder with"):
        open_exported(folder, "L3")


def test_a_state_that_was_exported_later_counts(folder, first, tmp_path):
    place = shutil.copytree(folder, tmp_path / "copy")
    again = export_state(first, place / "again.safetensors")
    assert exported_lots(model_file(place))["L1"] == again
    export_state(first, place / "more.safetensors")
    with pytest.raises(
        DataError, match="Each lot needs one state file, got .*again.safetensors and .*more.safetensors"
    ):
        open_exported(place, "L1")


def test_states_of_other_stations_are_passed_over(folder, tmp_path):
    place = shutil.copytree(folder, tmp_path / "copy")
    export_state(calibrated("patchcore", lot="L9"), place / "L9.safetensors")
    assert set(exported_lots(model_file(place))) == {"L1", "L2"}


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(ArtifactError, match="expected in .*, got neither model.onnx nor model.xml: give the folder"):
        open_exported(tmp_path)


def test_the_map_is_that_of_the_runner(folder, images):
    lot = open_exported(folder)
    judged = next(iter(lot.stream(images[:1])))
    np.testing.assert_array_equal(judged.heat(), lot.model.draw(lot.model.judge(images[0])))
