"""Features and Scores: what they refuse, and that slicing and joining keep images together."""

from __future__ import annotations

import pytest
import torch

from sparcal.errors import DataError, NotFittedError, ShapeError
from sparcal.testing import normal_features
from sparcal.types import Features, Scores, fitted, require_reference

make = normal_features((3, 4, 6), (2, 2, 9), channels=5)


@pytest.mark.parametrize(
    ("levels", "cls", "message"),
    [
        (torch.zeros(1, 2, 2, 3), None, "needs a tuple of at least one .* got Tensor: write Features"),
        ((), None, "got tuple of length 0"),
        ((torch.zeros(2, 2, 3),), None, r"level 0 must be a floating tensor \(n, h, w, d\), got \(2, 2, 3\)"),
        ((torch.zeros(1, 2, 2, 3, dtype=torch.int64),), None, "got .* torch.int64: put channels last"),
        ((torch.zeros(1, 2, 2, 3), torch.zeros(2, 1, 1, 3)), None, "same images, got 1 in level 0 and 2 in level 1"),
        ((torch.zeros(1, 2, 2, 3),), torch.zeros(2, 4), r"cls must be \(1, c\), one row per image, got \(2, 4\)"),
    ],
)
def test_features_that_do_not_fit_are_refused(levels, cls, message):
    with pytest.raises(ShapeError, match=message):
        Features(levels, cls)


def test_slicing_keeps_levels_and_vectors_together():
    features = make(5, 0)
    numbers = torch.tensor([1, 2])
    for index in (slice(1, 3), [1, 2], numbers, numbers.to(torch.uint8), numbers.numpy().astype("uint8")):
        part = features[index]
        assert len(part) == 2
        assert torch.equal(part.levels[1], features.levels[1][1:3])
        assert torch.equal(part.cls, features.cls[1:3])
    assert torch.equal(features[-1].levels[0], features.levels[0][4:])
    assert len(features[2]) == 1


def test_joining_is_the_inverse_of_slicing():
    features = make(5, 0)
    joined = Features.cat([features[:2], features[2:]])
    assert torch.equal(joined.levels[1], features.levels[1])
    assert torch.equal(joined.cls, features.cls)
    with pytest.raises(ShapeError, match="needs at least one part, got none"):
        Features.cat([])
    with pytest.raises(ShapeError, match="parts on one grid, all with or all without cls"):
        Features.cat([features, Features(features.levels)])


def test_scores_belong_to_images():
    scores = Scores(torch.arange(3.0), torch.zeros(3, 2, 2))
    assert scores[[2, 0]].image.tolist() == [2, 0]
    with pytest.raises(ShapeError, match=r"image \(n,\) and cell \(n, h, w\), got \(3,\) and \(2, 2, 2\)"):
        Scores(torch.zeros(3), torch.zeros(2, 2, 2))


def test_learned_state_is_there_or_says_so():
    class Thing:
        pass

    state = torch.zeros(1)
    assert fitted(Thing(), state) is state
    with pytest.raises(NotFittedError, match="Thing must be fitted before use, got an unfitted one: call Thing.fit"):
        fitted(Thing(), None)
    with pytest.raises(
        DataError, match="Thing needs reference features of normal images, got 0 images: pass reference="
    ):
        require_reference(Thing(), make(2, 0)[:0])
