"""MuSc against a slow version with loops and cdist."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import interpolate

from sparcal.detectors import musc
from sparcal.detectors.musc import MuSc, mutual_scores, neighbourhood_tokens, shared_scores
from sparcal.errors import DataError, ShapeError
from sparcal.imaging.maps import MapRule
from sparcal.score import score_lot
from sparcal.sparc import SPARC
from sparcal.types import Features


def lot(n: int, *, grid: tuple[int, int, int] = (5, 4, 6), levels: int = 2, seed: int = 0, c: int = 7) -> Features:
    random = torch.Generator().manual_seed(seed)
    made = tuple(torch.randn(n, *grid, generator=random) + torch.randn(*grid, generator=random) for _ in range(levels))
    return Features(made, torch.randn(n, c, generator=random) + 2)


def slow_tokens(x: Tensor, r: int) -> Tensor:
    """LNAMD of one image (h, w, d), cell by cell."""
    h, w, d = x.shape
    x = (x - x.mean()) / (x.var(correction=0) + 1e-5).sqrt()
    out = torch.zeros(h, w, d, dtype=x.dtype)
    for a in range(h):
        for b in range(w):
            for u in range(a - r // 2, a + r // 2 + 1):
                for v in range(b - r // 2, b + r // 2 + 1):
                    if 0 <= u < h and 0 <= v < w:
                        out[a, b] += x[u, v] / r**2
            out[a, b] /= out[a, b].norm()
    return out.flatten(0, 1)


def slow_mutual(tokens: list[Tensor], interval: float) -> Tensor:
    """MSM with the whole table of distances, by differences."""
    n = len(tokens)
    count = max(1, math.floor(interval * (n - 1)))
    rows = []
    for i in range(n):
        table = torch.stack(
            [
                torch.cdist(tokens[i], tokens[j], compute_mode="donot_use_mm_for_euclid_dist").min(dim=1).values
                for j in range(n)
                if j != i
            ]
        )
        rows.append(table.sort(dim=0).values[:count].mean(dim=0))
    return torch.stack(rows)


def slow_rscin(scores: Tensor, cls: Tensor, ks: tuple[int, ...]) -> Tensor:
    n = len(scores)
    scores = (scores - scores.min()) / (scores.max() - scores.min())
    out = torch.zeros(n, dtype=scores.dtype)
    for k in ks:
        for i in range(n):
            cosine = torch.stack([cls[i] @ cls[j] / (cls[i].norm() * cls[j].norm()) for j in range(n)])
            chosen = cosine.argsort(descending=True)[:k]
            out[i] += (cosine[chosen] * scores[chosen]).sum() / cosine[chosen].sum() / len(ks)
    return out


def slow_score(features: Features, detector: MuSc) -> tuple[Tensor, Tensor]:
    maps = [
        slow_mutual([slow_tokens(x, r) for x in level], detector.interval)
        for level in features.levels
        for r in detector.radii
    ]
    h, w, _ = features.grids[0]
    cell = (sum(maps) / len(maps)).unflatten(1, (h, w))
    side = detector.map_rule.cell_pixels
    pixels = interpolate(cell[:, None], size=(h * side, w * side), mode="bilinear", align_corners=True)
    image = pixels.flatten(1).max(dim=1).values
    if detector.rscin:
        image = slow_rscin(image, features.cls, detector.neighbours)
    return image, cell


@pytest.mark.parametrize("n", [2, 3, 5, 11, 14])
@pytest.mark.parametrize("rscin", [True, False])
def test_musc_equals_the_loops(n: int, rscin: bool) -> None:
    features, detector = lot(n, seed=n), MuSc(rscin=rscin)
    scores = detector.fit(None).score(features)
    image, cell = slow_score(features, detector)
    torch.testing.assert_close(scores.cell, cell, atol=1e-5, rtol=0)
    torch.testing.assert_close(scores.image, image, atol=1e-4 if rscin else 1e-5, rtol=0)


@pytest.mark.parametrize("radius", [1, 3, 5, 7])
def test_neighbourhood_tokens_equal_the_loops(radius: int) -> None:
    level = lot(2).levels[0]
    for ours, x in zip(neighbourhood_tokens(level, radius), level, strict=True):
        torch.testing.assert_close(ours, slow_tokens(x, radius), atol=1e-6, rtol=1e-5)


@settings(deadline=None, max_examples=60)
@given(
    n=st.integers(2, 9),
    p=st.integers(1, 6),
    seed=st.integers(0, 10**6),
    interval=st.floats(0.01, 1.0),
    memory=st.sampled_from([1, 200, 2**20]),
    near=st.sampled_from([0.0, 1e-4, 2e-3, 5e-3, 1e-2, 3e-2, 1.0]),
)
def test_mutual_scores_equal_cdist_at_any_memory_and_for_near_duplicates(
    n: int, p: int, seed: int, interval: float, memory: int, near: float
) -> None:
    random = torch.Generator().manual_seed(seed)
    tokens = torch.randn(1, p, 8, generator=random) + near * torch.randn(n, p, 8, generator=random)
    tokens = torch.nn.functional.normalize(tokens, dim=-1)
    expected = slow_mutual(list(tokens), interval)
    torch.testing.assert_close(mutual_scores(tokens, interval, memory=memory), expected, atol=1e-5, rtol=0)


def test_small_gram_blocks_give_the_same_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = neighbourhood_tokens(lot(9).levels[0], 3)
    whole = mutual_scores(tokens, 0.3, memory=2**30)
    monkeypatch.setattr(musc, "GRAM_BYTES", 2 * 4 * 20 * 20)
    torch.testing.assert_close(mutual_scores(tokens, 0.3, memory=2**30), whole, atol=1e-6, rtol=0)


@pytest.mark.parametrize(("memory", "held"), [(1, 1), (4 * 20 * 9 * 3, 3), (2**30, 9)])
def test_no_more_distances_are_held_than_memory_allows(memory: int, held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[int] = []
    real = musc.squared_distances

    def watch(tokens: Tensor, rows: range) -> Tensor:
        groups.append(len(rows))
        return real(tokens, rows)

    monkeypatch.setattr(musc, "squared_distances", watch)
    mutual_scores(neighbourhood_tokens(lot(9).levels[0], 1), 0.3, memory=memory)
    assert max(groups) == held
    assert sum(groups) == 9


def test_identical_images_are_at_distance_zero() -> None:
    features = lot(1, seed=3)[[0] * 5]
    assert MuSc(rscin=False).score(features).cell.max() < 1e-7
    assert torch.equal(MuSc().score(features).image, torch.zeros(5))


def test_an_image_without_structure_is_at_distance_one_as_its_vectors_are_zero() -> None:
    features = lot(4)
    blank = Features(tuple(torch.cat([torch.ones_like(x[:1]), x[1:]]) for x in features.levels))
    cell = MuSc(rscin=False).score(blank).cell
    torch.testing.assert_close(cell[0], torch.ones_like(cell[0]))


def test_a_lot_of_one_other_image_still_averages_one() -> None:
    features = lot(2)
    cell = MuSc(radii=(1,), rscin=False).score(features).cell
    assert torch.isfinite(cell).all()


def test_rscin_with_one_neighbour_is_the_normalised_score() -> None:
    features = lot(6)
    raw = MuSc(rscin=False).score(features).image
    shared = MuSc(neighbours=(1,)).score(features).image
    torch.testing.assert_close(shared, (raw - raw.min()) / (raw.max() - raw.min()))


@settings(deadline=None, max_examples=25)
@given(n=st.integers(2, 12), seed=st.integers(0, 10**6), ks=st.lists(st.integers(1, 12), min_size=1, max_size=4))
def test_shared_scores_equal_the_loops(n: int, seed: int, ks: list[int]) -> None:
    random = torch.Generator().manual_seed(seed)
    image, cls = torch.rand(n, generator=random), torch.rand(n, 5, generator=random)
    expected = slow_rscin(image, cls, tuple(min(k, n) for k in ks))
    torch.testing.assert_close(shared_scores(image, cls, tuple(ks)), expected, atol=1e-5, rtol=1e-5)


def test_shared_scores_survive_opposite_and_empty_vectors() -> None:
    image = torch.tensor([0.0, 1.0, 3.0])
    opposite = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]])
    torch.testing.assert_close(shared_scores(image, opposite, (1, 2, 3)), image / 3)


def test_shared_scores_of_a_large_lot_are_taken_in_blocks() -> None:
    random = torch.Generator().manual_seed(0)
    image, cls = torch.rand(1030, generator=random), torch.rand(1030, 3, generator=random)
    unit = cls / cls.norm(dim=1, keepdim=True)
    weight, index = (unit @ unit.T).topk(2)
    normalised = (image - image.min()) / (image.max() - image.min())
    expected = (weight * normalised[index]).sum(1) / weight.sum(1)
    torch.testing.assert_close(shared_scores(image, cls, (2,)), expected, atol=1e-4, rtol=1e-4)


def test_half_precision_features_are_scored_in_single_precision() -> None:
    features = lot(5)
    half = MuSc().score(Features(tuple(x.half() for x in features.levels), features.cls.half()))
    whole = MuSc().score(Features(tuple(x.half().float() for x in features.levels), features.cls.half().float()))
    assert torch.equal(half.cell, whole.cell)
    assert torch.equal(half.image, whole.image)


def test_the_reference_is_not_used_and_a_correction_acts_on_the_lot() -> None:
    features, calibration = lot(6), lot(3, seed=1)
    detector = MuSc(map_rule=MapRule(cell_pixels=4, sigma=0, upsample="corners"))
    with_reference = score_lot(
        detector, features, reference=lot(2, seed=2), calibration=calibration, correction=SPARC()
    )
    without = score_lot(detector, features, reference=None, calibration=calibration, correction=SPARC())
    assert torch.equal(with_reference.cell, without.cell)
    corrected = SPARC().fit(calibration).apply(features)
    assert torch.equal(without.cell, detector.score(corrected).cell)
    assert not torch.allclose(without.cell, detector.score(features).cell)


@pytest.mark.parametrize(
    ("detector", "features", "kind", "sentence"),
    [
        (MuSc(), lot(1), DataError, r"a lot of at least 2 images, got 1: .*score them together"),
        (MuSc(), lot(3)[0:0], ShapeError, r"MuSc scores one or more images, got 0: "),
        (
            MuSc(),
            Features((torch.zeros(2, 4, 4, 3), torch.zeros(2, 2, 2, 3))),
            ShapeError,
            r"must share one grid, got 4x4, 2x2: read blocks",
        ),
        (MuSc(), Features(lot(3).levels), DataError, r"got none: use an encoder with cls=1, or MuSc\(rscin=False\)\."),
    ],
)
def test_bad_input_is_refused(detector: MuSc, features: Features, kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind, match=sentence):
        detector.score(features)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"radii": (1, 4)}, r"MuSc.radii must be odd numbers .*got \(1, 4\): "),
        ({"radii": ()}, r"MuSc.radii must be a tuple of whole numbers of at least 1, got \(\): "),
        ({"interval": 0.0}, r"MuSc.interval must be in \(0, 1\], got 0.0: "),
        ({"neighbours": (0, 1)}, r"MuSc.neighbours must be .*got \(0, 1\): "),
        ({"memory": 0}, r"MuSc.memory must be a whole number of at least 1, got 0: these are bytes"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        MuSc(**settings)
