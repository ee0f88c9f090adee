"""Exports are compared on images that do not collapse under the lot's correction."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from PIL import Image

from sparcal.errors import ArtifactError
from sparcal.export.lot import export_lot, export_state, lot_model
from sparcal.export.probe import probe_images
from sparcal.export.runner import load_exported
from sparcal.imaging.read import read_batches
from sparcal.station.station import Station
from tests.support.lot_models import TINY_RESNET, photographs


@pytest.fixture(scope="module")
def station(tmp_path_factory):
    path = tmp_path_factory.mktemp("probe") / "station"
    made = Station.fit(photographs(8, seed=0), "padim", encoder=TINY_RESNET, weights="random:0", path=path)
    made.calibrate(photographs(4, seed=1), "L", correction="sparc-recentred", reason="a test")
    return made


def test_planted_and_training_parts_keep_their_scores_where_normals_collapse(station):
    lot = station.lot("L")
    probe = probe_images(lot)
    assert probe.shape[0] == 4
    scores = lot_model(lot).score(probe)[0].image
    [normals] = read_batches(photographs(4, seed=1), station.encoder.preprocess)
    collapsed = lot_model(lot).score(normals.pixels)[0].image
    assert float(scores.min()) > 10 * float(collapsed.max())


@pytest.mark.parametrize("format", ["onnx", "openvino", "state"])
def test_padim_with_recentred_sparc_exports(station, tmp_path, format):
    lot = station.lot("L")
    path = export_lot(lot, tmp_path / "out", format=format)
    assert path.is_file()
    if format != "state":
        image = photographs(1, seed=5, defects=True)[0]
        assert load_exported(path).judge(image).score == pytest.approx(lot.score(image)[0].score, rel=1e-3)


def test_a_state_that_does_not_agree_is_not_written(station, tmp_path, monkeypatch):
    model = lot_model(station.lot("L"))
    monkeypatch.setattr(
        "sparcal.export.graph.LotGraph._draw", lambda self, cells: 2 * (self.rows @ cells @ self.columns.mT)
    )
    with pytest.raises(
        ArtifactError, match=r"must agree with the library .*: this station cannot be exported as state"
    ):
        export_state(model, tmp_path / "state.safetensors", probe=torch.randn(2, 3, 64, 64))
    assert not (tmp_path / "state.safetensors").exists()


def test_a_lot_that_kept_no_images_is_compared_on_training_parts(station, tmp_path):
    lot = station.lot("L")
    bare = {name: digest for name, digest in lot.record.files.items() if not name.startswith("part-")}
    old = replace(lot, record=replace(lot.record, files=bare))
    assert probe_images(old).shape[0] == 2
    Image.fromarray(photographs(1, seed=1)[0]).save(tmp_path / "a.png")
    images = ((str(tmp_path / "gone.png"), ""), (str(tmp_path / "a.png"), ""))
    assert probe_images(replace(old, record=replace(old.record, images=images))).shape[0] == 3
    assert probe_images(station.own()).shape[0] == 4
