"""The exported graph, still in torch: equal to the library, and each part equal to an obvious version of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from sparcal import SPARC, load_encoder
from sparcal.corrections import GlobalSubspace, Identity, MeanOnly, NormalsInReference, SparcMean
from sparcal.detectors import SPADE, MuSc
from sparcal.errors import DataError, NotFittedError, ShapeError
from sparcal.export.graph import LotGraph, exportable, lot_tensors
from sparcal.score import CalibratedDetector
from sparcal.types import Features
from tests.support.lot_models import DETECTORS, calibrated, pixels


@pytest.mark.parametrize("name", DETECTORS)
def test_the_graph_scores_as_the_library(name):
    model = calibrated(name)
    probe = torch.cat([pixels(3, seed=3), pixels(3, seed=4, defects=True)])
    scores, maps = model.score(probe)
    graph = LotGraph(model)
    with torch.inference_mode():
        score, anomalous, heat, cells = graph(probe, lot_tensors(graph, model))
    torch.testing.assert_close(score, scores.image, rtol=1e-4, atol=0)
    torch.testing.assert_close(cells, scores.cell, rtol=1e-4, atol=1e-4 * float(scores.cell.max()))
    torch.testing.assert_close(heat, maps, rtol=1e-4, atol=1e-4 * float(maps.max()))
    assert anomalous.tolist() == (scores.image > model.threshold).tolist()


@pytest.mark.parametrize(
    "correction",
    [
        Identity(),
        SPARC(on="reference"),
        SPARC(on="test"),
        SPARC(recentre="cell"),
        SPARC(rank=1),
        NormalsInReference(),
        NormalsInReference(after="recentred"),
        MeanOnly(),
        SparcMean(),
    ],
    ids=str,
)
def test_the_graph_follows_the_side_that_is_corrected(correction):
    model = calibrated("patchcore", correction=correction)
    graph, probe = LotGraph(model), pixels(2, seed=3)
    with torch.inference_mode():
        score, *_ = graph(probe, lot_tensors(graph, model))
    torch.testing.assert_close(score, model.score(probe)[0].image, rtol=1e-4, atol=0)


def test_signatures_tell_graphs_apart():
    base = LotGraph(calibrated("patchcore"))
    assert base.signature == LotGraph(calibrated("patchcore", lot="L2", reference=7, k=3, seed=5)).signature
    assert base.signature != LotGraph(calibrated("anomalydino")).signature
    assert base.signature != LotGraph(calibrated("patchcore-anomalib")).signature


def with_correction(model, correction):
    return replace(model, calibrated=CalibratedDetector(correction, model.calibrated.detector))


@pytest.mark.parametrize("detector", [MuSc(), SPADE()])
def test_other_detectors_are_refused(detector):
    with pytest.raises(
        DataError, match=f"AnomalyDINO, PaDiM, PatchCore and SubspaceAD can be exported, got {type(detector).__name__}"
    ):
        exportable(detector)


def test_an_unfitted_correction_is_refused():
    model = calibrated("patchcore")
    with pytest.raises(NotFittedError, match="SPARC must be fitted"):
        lot_tensors(LotGraph(model), with_correction(model, SPARC()))


def test_other_corrections_are_refused():
    model = calibrated("patchcore")
    with pytest.raises(
        DataError, match="a correction that a graph can repeat, such as SPARC, got GlobalSubspace: calibrate the lot"
    ):
        lot_tensors(LotGraph(model), with_correction(model, GlobalSubspace()))


def test_a_threshold_must_be_finite():
    model = calibrated("patchcore")
    with pytest.raises(DataError, match="The lot 'L1' can be exported with a finite threshold, got inf"):
        lot_tensors(LotGraph(model), replace(model, threshold=float("inf")))


def test_a_lot_of_another_detector_is_refused():
    with pytest.raises(DataError, match="The lot 'L1' must be of the station that the graph was exported from"):
        lot_tensors(LotGraph(calibrated("patchcore")), calibrated("padim"))


def test_a_lot_of_another_grid_is_refused():
    model = calibrated("patchcore")
    sparc = SPARC().fit(Features((torch.randn(3, 4, 4, 240),)))
    with pytest.raises(ShapeError, match=r"must give sparc_basis as \(8, 8, s, 240\), got \(4, 4, 2, 240\)"):
        lot_tensors(LotGraph(model), with_correction(model, sparc))


def test_several_levels_are_refused():
    encoder = load_encoder(
        "timm:test_resnet.r160_in1k?layers=8,16&aggregate=levels&resize=square&size=64", weights="random:0"
    )
    with pytest.raises(ShapeError, match="works on one grid of features, got 2 levels"):
        LotGraph(replace(calibrated("patchcore"), encoder=encoder))


def test_the_input_size_must_be_known_and_its_own():
    model = calibrated("patchcore")
    with pytest.raises(DataError, match=r"The encoder's input is 64 x 64, got size=\(32, 64\)"):
        LotGraph(replace(model, size=(32, 64)))
    free = load_encoder("timm:test_resnet.r160_in1k?layers=8,16&resize=short&size=64", weights="random:0")
    with pytest.raises(DataError, match=r"an encoder whose input follows the shape of the image: pass size="):
        LotGraph(replace(model, encoder=free))
    assert LotGraph(replace(model, encoder=free, size=(64, 96))).grid == (8, 12, 240)
