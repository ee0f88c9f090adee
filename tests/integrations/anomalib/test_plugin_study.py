"""The study of relit photographs, on small rendered parts: each model is trained by the engine and judges every part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from speed.studies import plugin as study
from speed.studies.lots import Drawn
from tests.support.anomalib_parts import raw, read


def images(folder: Path) -> list[np.ndarray]:
    return [np.asarray(Image.open(path)) for path in sorted(folder.iterdir())]


@pytest.mark.parametrize("model", study.MODELS)
def test_a_model_is_calibrated_and_judges_every_part(
    model: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "SIZE", (64, 64))
    monkeypatch.setitem(study.MODELS, "Patchcore", {"coreset_sampling_ratio": 0.2})
    good, bad = images(folder / "test" / "good"), images(folder / "test" / "bad")
    lot = Drawn(images(folder / "lot" / "good"), good, bad, [], [], [True] * len(good))
    trained = study.TrainedModel(model, tmp_path, images(folder / "train"))
    row = trained.judge(lot)
    for kind in ("good", "bad"):  # the engine's labels, part by part, are what the model itself scores
        scores = raw(trained.model, read(folder / "test" / kind)).pred_score.flatten()
        assert row[kind] == (scores > row["threshold"]).tolist()
    assert sum(row["bad"]) >= 4
