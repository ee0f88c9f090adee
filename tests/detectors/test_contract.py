"""Every detector against the one list of contract checks, and the registry."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch

from sparcal import detectors
from sparcal.corrections import Identity, MeanOnly
from sparcal.detectors import (
    DETECTORS,
    SPADE,
    AnomalyCLIP,
    AnomalyDINO,
    FastRecon,
    FastRef,
    MuSc,
    PaDiM,
    PatchCore,
    SubspaceAD,
    WinCLIP,
    detector_facts,
    for_cell_pixels,
)
from sparcal.detectors.export_rule import is_exportable
from sparcal.imaging.maps import MapRule, input_map
from sparcal.score import score_lot
from sparcal.testing import DetectorCase, detector_checks, normal_features
from sparcal.testing.made_features import OUTLIER_COLUMN, OUTLIER_IMAGE, OUTLIER_ROW
from sparcal.types import Detector, Features

one_grid = normal_features((6, 8, 16))
pyramid = normal_features((8, 8, 6), (4, 4, 8), (2, 2, 10))

windows_apart = normal_features((6, 8, 16), channels=8 * (1 + 5 * 7 + 4 * 6))
windows_as_levels = normal_features((6, 8, 16), (5, 7, 8), (4, 6, 8), channels=8)
patches_and_vector = normal_features((6, 8, 8), channels=8)
layers_and_vector = normal_features((6, 8, 16), (6, 8, 12), channels=8)


def texts(features: Callable[[int, int], Features]) -> torch.Tensor:
    """Two opposite texts, of which the normal one describes the image vectors of `features`."""
    vector = features(50, 0).cls[:, :8].mean(dim=0)
    return torch.stack([vector, -vector])


def plant_damage(features: Features) -> Features:
    """One patch, and the vector of its image, that the anomalous text describes."""
    vector = features.cls.clone()
    vector[OUTLIER_IMAGE] = texts(patches_and_vector)[1]
    level = features.levels[0].clone()
    level[OUTLIER_IMAGE, int(OUTLIER_ROW * 6), int(OUTLIER_COLUMN * 8)] = 5 * texts(patches_and_vector)[1]
    return Features((level,), vector)


CASES = (
    DetectorCase("patchcore", PatchCore, one_grid),
    DetectorCase("patchcore-full", lambda: PatchCore(coreset=1.0, neighbours=3), one_grid),
    DetectorCase("patchcore-projected", lambda: PatchCore(dimension=4), one_grid),
    DetectorCase("patchcore-anomalib", PatchCore.anomalib, one_grid),
    DetectorCase("padim-kernel", PaDiM, one_grid, unmoved_by_constant=("image", "cell")),
    DetectorCase("padim-covariance", lambda: PaDiM(dimension=5), one_grid, unmoved_by_constant=("image", "cell")),
    DetectorCase("spade", SPADE, pyramid, unmoved_by_constant=("image",)),
    DetectorCase(
        "spade-pooled", lambda: SPADE(image_descriptor="pooled-pixels"), pyramid, unmoved_by_constant=("image",)
    ),
    DetectorCase("spade-one-level", SPADE, one_grid, unmoved_by_constant=("image",)),
    DetectorCase("anomalydino", AnomalyDINO, one_grid),
    DetectorCase("subspacead", lambda: SubspaceAD(explained=0.9), one_grid),
    DetectorCase("winclip", WinCLIP, one_grid),
    DetectorCase("winclip-shots", lambda: WinCLIP(shots=5), one_grid),
    DetectorCase("winclip-plus", lambda: WinCLIP(mode="winclip_plus").with_text(texts(windows_apart)), windows_apart),
    DetectorCase(
        "winclip-plus-windows",
        lambda: WinCLIP(mode="winclip_plus_windows").with_text(texts(windows_as_levels)),
        windows_as_levels,
    ),
    DetectorCase(
        "anomalyclip",
        lambda: AnomalyCLIP(temperature=1.0).with_text(texts(patches_and_vector)),  # at 0.07 random cells saturate
        patches_and_vector,
        reference=False,
        plant=plant_damage,
    ),
    DetectorCase("fastrecon", FastRecon, one_grid),
    DetectorCase("fastref", lambda: FastRef(coreset=0.01), one_grid),
    DetectorCase("fastref-literal", lambda: FastRef(coreset=0.01, transport="literal"), one_grid),
    DetectorCase("musc", MuSc, layers_and_vector, reference=False),
    DetectorCase("musc-grouped", lambda: MuSc(rscin=False, memory=1), one_grid, reference=False),
)


@pytest.mark.parametrize(
    "check",
    [pytest.param(check, id=f"{case.name}-{name}") for case in CASES for name, check in detector_checks(case).items()],
)
def test_contract(check: Callable[[], None]) -> None:
    check()


def test_every_registered_detector_is_under_contract() -> None:
    assert {type(case.detector()) for case in CASES} == set(DETECTORS.values())


def test_the_registry_tells_what_the_classes_are() -> None:
    for case in CASES:
        detector = case.detector()
        facts = detector_facts(type(detector).__name__.lower())
        assert (facts.title, facts.family) == (type(detector).__name__, detector.family)
        assert facts.exportable == is_exportable(detector)


def test_a_detector_is_loaded_when_it_is_used() -> None:
    code = (
        "import sys; from sparcal.detectors import PaDiM; print(*(m for m in sys.modules if 'sparcal.detectors.' in m))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "sparcal.detectors.padim" in printed
    assert "sparcal.detectors.patchcore" not in printed


def test_an_unknown_detector_lists_the_known_ones() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Padim'; it offers DETECTORS, SPADE, AnomalyCLIP"):
        _ = detectors.Padim


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_for_cell_pixels_sizes_the_map_to_the_input(case: DetectorCase) -> None:
    original = case.detector()
    before = original.map_rule
    detector: Detector = for_cell_pixels(original, 3).fit(case.normals())
    features = case.test()
    pixels = input_map(detector.score(features).cell, detector.map_rule)
    _, h, w, _ = features.levels[0].shape
    assert pixels.shape[1:] == (3 * h, 3 * w)
    assert original.map_rule == before


@pytest.mark.parametrize("case", [case for case in CASES if case.unmoved_by_constant], ids=lambda case: case.name)
def test_mean_only_leaves_a_lot_as_it_is(case: DetectorCase) -> None:
    lot, test, reference = case.features(4, 30), case.test(), case.normals()
    base, moved = (
        score_lot(case.detector(), test, reference=reference, calibration=lot, correction=correction)
        for correction in (Identity(), MeanOnly())
    )
    for name in case.unmoved_by_constant:
        torch.testing.assert_close(getattr(moved, name), getattr(base, name), rtol=1e-5, atol=1e-5)


def test_default_map_rules_are_the_authors() -> None:
    assert PatchCore().map_rule == MapRule(cell_pixels=8)
    assert PaDiM().map_rule == MapRule(cell_pixels=4)
    assert (SPADE().cell_pixels, SPADE().map_rule) == (4, MapRule(cell_pixels=1))
    assert AnomalyDINO().map_rule == MapRule(cell_pixels=14, at="native")
    assert SubspaceAD().map_rule == MapRule(cell_pixels=14, blur="box3")
    assert WinCLIP().map_rule == MapRule(cell_pixels=16, sigma=0)
    assert AnomalyCLIP().map_rule == MapRule(cell_pixels=14, sigma=4)
    assert FastRecon().map_rule == FastRef().map_rule == MapRule(cell_pixels=8)
    assert MuSc().map_rule == MapRule(cell_pixels=14, sigma=0, upsample="corners")


COUNTING = [case for case in CASES if hasattr(case.detector(), "reference_bytes")]


@pytest.mark.parametrize("images", [4, 12, 40])
@pytest.mark.parametrize("case", COUNTING, ids=lambda case: case.name)
def test_the_size_of_a_reference_is_known_beforehand(case: DetectorCase, images: int) -> None:
    features = case.features(images, 1)
    detector = case.detector()
    told = detector.reference_bytes(features.grids, images)  # type: ignore[attr-defined]
    learned = [value for name, value in vars(detector.fit(features)).items() if name.endswith("_")]
    tensors = [one for value in learned for one in (value if isinstance(value, tuple) else (value,))]
    kept = sum(one.nbytes for one in tensors if isinstance(one, torch.Tensor))
    assert 0.9 * kept <= told <= kept, "a little is not counted: descriptors and the numbers of channels"


def test_the_detectors_with_large_references_count_them() -> None:
    assert {type(case.detector()) for case in COUNTING} == {PatchCore, PaDiM, SPADE, AnomalyDINO}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_float32_scores_as_float64(case: DetectorCase) -> None:
    normals = case.features(12, 1)
    scores = case.detector().fit(normals).score(case.test())
    wide = case.detector().fit(normals.map(torch.Tensor.double)).score(case.test().map(torch.Tensor.double))
    torch.testing.assert_close(scores.cell.double(), wide.cell, rtol=1e-3, atol=1e-4)
