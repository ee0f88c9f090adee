"""How a check speaks: what must must_hold, what must be refused, when two results are the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from sparcal.types import Features, Scores


def must_hold(true: bool, sentence: str) -> None:
    """An `AssertionError` that says what should be so, where it is not; unlike `assert`, also under `python -O`."""
    if not true:
        raise AssertionError(f"Expected: {sentence}.")


@contextmanager
def refuses(kind: type[Exception], who: str) -> Iterator[None]:
    """The block raises `kind` with one sentence that names who, what came, and the remedy."""
    try:
        yield
    except kind as error:
        sentence = str(error)
    else:
        raise AssertionError(f"Expected: {who} refuses it with a {kind.__name__}.")
    must_hold(who in sentence, f"the refusal names {who!r}, got {sentence!r}")
    must_hold("got" in sentence, f"the refusal says what it got, got {sentence!r}")
    must_hold(": " in sentence, f"the refusal gives a remedy after a colon, got {sentence!r}")
    must_hold(sentence.endswith(".") and "\n" not in sentence, f"the refusal is one sentence, got {sentence!r}")


def tensors_of(features: Features) -> tuple[Tensor, ...]:
    """Every level, and the image vectors where there are any."""
    return features.levels if features.cls is None else (*features.levels, features.cls)


def equal_features(got: Features, expected: Features) -> bool:
    """Whether both hold the same bytes."""
    pairs = zip(tensors_of(got), tensors_of(expected), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def close_scores(got: Scores, expected: Scores) -> None:
    """An `AssertionError` where scores differ by more than rounding."""
    torch.testing.assert_close(got.image, expected.image, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(got.cell, expected.cell, rtol=1e-4, atol=1e-5)
