"""The exported graph, still in torch: equal to the library, and each part equal to an obvious version of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sparcal import SPARC, load_encoder
from sparcal.corrections import Identity, MeanOnly, NormalsInReference
from sparcal.detectors import SPADE, AnomalyDINO, MuSc, PaDiM, PatchCore, SubspaceAD
from sparcal.errors import DataError, NotFittedError, ShapeError
from sparcal.export.graph import LotGraph, LotModel, lot_state
from sparcal.export.scoring import NearestRule, remove, rule_of, state_of, whitener_of_factor, whitener_of_kernel
from sparcal.types import Features
from tests.support.lot_models import DETECTORS, calibrated, pixels, tiny_resnet


@pytest.mark.parametrize("name", DETECTORS)
def test_the_graph_scores_as_the_library(name):
    model = calibrated(name)
    probe = torch.cat([pixels(3, seed=3), pixels(3, seed=4, defects=True)])
    scores, maps = model.score(probe)
    graph = LotGraph(model)
    with torch.inference_mode():
        score, anomalous, heat, cells = graph(probe, lot_state(graph, model))
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
    ],
    ids=str,
)
def test_the_graph_follows_the_side_that_is_corrected(correction):
    model = calibrated("patchcore", correction=correction)
    graph, probe = LotGraph(model), pixels(2, seed=3)
    with torch.inference_mode():
        score, *_ = graph(probe, lot_state(graph, model))
    torch.testing.assert_close(score, model.score(probe)[0].image, rtol=1e-4, atol=0)


@pytest.mark.parametrize("images", [4, 30])
def test_whitening_rows_give_the_inverse_covariance(images):
    random, ridge, c = torch.Generator().manual_seed(0), 0.01, 7
    level = torch.randn(images, 2, 3, c, generator=random) * torch.logspace(1, -2, c)
    detector = PaDiM(ridge=ridge).fit(Features((level,)))
    if detector.kernel_ is not None:
        rows = whitener_of_kernel(detector.kernel_.flatten(0, 1))
    else:
        rows = whitener_of_factor(detector.factor_.flatten(0, 1), c, ridge)
    root = (torch.eye(c, dtype=torch.float64) - rows.mT @ rows) / ridge**0.5
    for cell, half in zip(level.flatten(1, 2).transpose(0, 1), root, strict=True):
        covariance = np.cov(cell.double().numpy(), rowvar=False) + ridge * np.eye(c)
        np.testing.assert_allclose(half @ half, np.linalg.inv(covariance), rtol=1e-6, atol=1e-6)


def test_remove_is_the_projection_of_each_cell():
    random = torch.Generator().manual_seed(0)
    f, basis = torch.randn(2, 3, 4, 5, generator=random), torch.randn(3, 4, 2, 5, generator=random)
    out = remove(f, basis)
    for i in range(2):
        for y in range(3):
            for x in range(4):
                v = basis[y, x]
                torch.testing.assert_close(out[i, y, x], f[i, y, x] - v.T @ (v @ f[i, y, x]))


def test_distances_survive_a_large_common_offset():
    """|a|^2 + |b|^2 - 2 a b alone would lose all digits here."""
    random = torch.Generator().manual_seed(0)
    bank = 1000 + torch.randn(50, 16, generator=random)
    level = (bank[:8] + 0.05 * torch.randn(8, 16, generator=random)).reshape(2, 2, 2, 16)
    detector = PatchCore(coreset=1.0).fit(Features((bank.reshape(1, 5, 10, 16),)))
    rule, state = rule_of(detector), state_of(detector)
    image, cell, _ = rule.score(level, state, lambda cells: cells)
    expected = detector.score(Features((level,)))
    torch.testing.assert_close(cell, expected.cell, rtol=1e-3, atol=0)
    torch.testing.assert_close(image, expected.image, rtol=1e-3, atol=0)


def test_a_subspace_of_no_dimension_removes_nothing():
    flat = torch.ones(3, 2, 2, 4)
    detector = SubspaceAD().fit(Features((flat,)))
    assert detector.rank_ == 0
    state = state_of(detector)
    assert state["pca_basis"].shape == (1, 4)
    _, cell, _ = rule_of(detector).score(flat + 2, state, lambda cells: cells)
    torch.testing.assert_close(cell, torch.full((3, 2, 2), 16.0))


def test_signatures_tell_graphs_apart():
    base = LotGraph(calibrated("patchcore"))
    assert base.signature == LotGraph(calibrated("patchcore", lot="L2", reference=7, k=3, seed=5)).signature
    assert base.signature != LotGraph(calibrated("anomalydino")).signature
    assert base.signature != LotGraph(calibrated("patchcore-anomalib")).signature


def replaced(model, **changes):
    fields = {
        name: getattr(model, name) for name in ("encoder", "correction", "detector", "threshold", "facts", "size")
    }
    return LotModel(**(fields | changes))


@pytest.mark.parametrize("detector", [MuSc(), SPADE()])
def test_other_detectors_are_refused(detector):
    with pytest.raises(
        DataError, match=f"AnomalyDINO, PaDiM, PatchCore and SubspaceAD can be exported, got {type(detector).__name__}"
    ):
        rule_of(detector)


def test_a_foreground_mask_is_refused():
    with pytest.raises(DataError, match="exported with mask='off', got mask='tokens'"):
        rule_of(AnomalyDINO(mask="tokens"))


def test_a_bank_smaller_than_the_neighbours_is_refused():
    detector = PatchCore(coreset=1.0, neighbours=9).fit(Features((torch.randn(1, 2, 2, 3),)))
    with pytest.raises(DataError, match="PatchCore with 9 neighbours .* at least as many rows, got 4"):
        state_of(detector)


def test_unfitted_parts_are_refused():
    with pytest.raises(NotFittedError, match="PatchCore must be fitted"):
        state_of(PatchCore())
    model = calibrated("patchcore")
    with pytest.raises(NotFittedError, match="SPARC must be fitted"):
        lot_state(LotGraph(model), replaced(model, correction=SPARC()))


def test_other_corrections_are_refused():
    model = calibrated("patchcore")
    with pytest.raises(DataError, match="and no correction can be exported, got MeanOnly"):
        lot_state(LotGraph(model), replaced(model, correction=MeanOnly()))


def test_a_threshold_must_be_finite():
    model = calibrated("patchcore")
    with pytest.raises(DataError, match="The lot 'L1' can be exported with a finite threshold, got inf"):
        lot_state(LotGraph(model), replaced(model, threshold=float("inf")))


def test_a_lot_of_another_detector_is_refused():
    with pytest.raises(DataError, match="The lot 'L1' must be of the station that the graph was exported from"):
        lot_state(LotGraph(calibrated("patchcore")), calibrated("padim"))


def test_a_lot_of_another_grid_is_refused():
    model = calibrated("patchcore")
    sparc = SPARC().fit(Features((torch.randn(3, 4, 4, 240),)))
    with pytest.raises(ShapeError, match=r"must give sparc_basis as \(8, 8, s, 240\), got \(4, 4, 2, 240\)"):
        lot_state(LotGraph(model), replaced(model, correction=sparc))


def test_several_levels_are_refused():
    encoder = load_encoder(
        "timm:test_resnet.r160_in1k?layers=8,16&aggregate=levels&resize=square&size=64", weights="random:0"
    )
    with pytest.raises(ShapeError, match="works on one grid of features, got 2 levels"):
        LotGraph(replaced(calibrated("patchcore"), encoder=encoder))


def test_the_input_size_must_be_known_and_its_own():
    model = calibrated("patchcore")
    with pytest.raises(DataError, match=r"The encoder's input is 64 x 64, got size=\(32, 64\)"):
        LotGraph(replaced(model, size=(32, 64)))
    free = load_encoder("timm:test_resnet.r160_in1k?layers=8,16&resize=short&size=64", weights="random:0")
    with pytest.raises(DataError, match=r"an encoder whose input follows the shape of the image: pass size="):
        LotGraph(replaced(model, encoder=free))
    assert LotGraph(replaced(model, encoder=free, size=(64, 96))).grid == (8, 12, 240)


def test_the_rule_of_a_detector_says_what_it_does():
    assert rule_of(AnomalyDINO(neighbours=3)) == NearestRule(3, squared=True, unit=True, top=0.01)
    assert tiny_resnet().cell_pixels == 8
