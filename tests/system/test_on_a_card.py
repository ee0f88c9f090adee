"""`make test-gpu`: a real card gives what the processor gives. Needs one; elsewhere the spy device of test_devices stands in."""

from __future__ import annotations

import copy

import pytest
import torch

from sparcal.corrections import CORRECTIONS
from sparcal.encoders import load_encoder
from sparcal.neighbours import nearest
from sparcal.station.station import Station
from sparcal.testing.expectations import close_scores, tensors_of
from sparcal.testing.made_features import normal_features
from sparcal.types import Scores
from tests.detectors.test_contract import CASES as DETECTORS
from tests.encoders.test_contract import CASES as ENCODERS
from tests.support.tiny_station import demo, pictures

CARD = "mps" if torch.backends.mps.is_available() else "cuda"
pytestmark = pytest.mark.skipif(
    not (torch.cuda.is_available() or torch.backends.mps.is_available()), reason="needs a graphics card"
)
needs_float64 = pytest.mark.skipif(CARD == "mps", reason="Apple's cards have no float64")

made = normal_features((3, 4, 6), (2, 2, 9), channels=5)
NORMALS, REFERENCE, TEST = made(4, 0), made(12, 1), made(3, 2)


@pytest.mark.parametrize("case", ENCODERS, ids=lambda case: case.name)
def test_features_agree(case):
    encoder = case.encoder()
    expected = copy.deepcopy(encoder.model).to("cpu"), encoder.model.to(CARD)
    here = type(encoder)(**{**vars(encoder), "model": expected[0]})(case.pixels())
    for got, wanted in zip(tensors_of(encoder(case.pixels())), tensors_of(here), strict=True):
        torch.testing.assert_close(got.cpu(), wanted, rtol=1e-3, atol=1e-4)


@needs_float64
@pytest.mark.parametrize("case", DETECTORS, ids=lambda case: case.name)
def test_scores_agree(case):
    detector, normals = case.detector(), case.normals()
    for name, value in vars(detector).items():
        if isinstance(value, torch.Tensor):
            setattr(detector, name, value.to(CARD))
    scores = detector.fit(None if normals is None else normals.to(CARD)).score(case.test().to(CARD))
    close_scores(Scores(scores.image.cpu(), scores.cell.cpu()), case.fitted().score(case.test()))


@needs_float64
@pytest.mark.parametrize("name", CORRECTIONS)
def test_corrections_agree(name):
    got = CORRECTIONS[name]().fit(NORMALS.to(CARD), REFERENCE.to(CARD)).apply(TEST.to(CARD))
    expected = CORRECTIONS[name]().fit(NORMALS, REFERENCE).apply(TEST)
    for a, b in zip(tensors_of(got), tensors_of(expected), strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-3, atol=1e-4)


@needs_float64
def test_the_search_is_exact():
    queries, rows = torch.randn(500, 96), torch.randn(4000, 96).repeat(2, 1)
    squares = torch.cat([(part[:, None].double() - rows.double()).square().sum(2) for part in queries.split(50)])
    expected, order = squares.sort(dim=1, stable=True)
    distances, indices = nearest(queries.to(CARD), rows.to(CARD), k=3)
    assert torch.equal(indices.cpu(), order[:, :3])
    torch.testing.assert_close(distances.cpu(), expected[:, :3].sqrt().float())


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_a_station_judges_alike_on_both(tmp_path, precision):
    encoder = f"bundled?size=64&precision={precision}"
    lot = demo("lights")
    normals, test = pictures(lot.lot_good[:8]), pictures(lot.lot_good[8:] + lot.lot_bad)
    scores = []
    for device in ("cpu", CARD):
        station = Station.fit(pictures(demo().train), path=tmp_path / device, encoder=encoder, device=device)
        judged = station.calibrate(normals, "L1", correction="sparc").score(test)
        scores.append([one.score for one in judged])
    assert scores[1] == pytest.approx(scores[0], rel=1e-3 if precision == "float32" else 0.2)


def test_the_same_card_gives_the_same_bytes():
    encoder = load_encoder("bundled", device=CARD)
    pixels = torch.randn(16, 3, 256, 256, generator=torch.Generator().manual_seed(0))
    assert torch.equal(encoder(pixels).levels[0], encoder(pixels).levels[0])
