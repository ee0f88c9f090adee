"""The study of one lot of photographs: the lamp that it promises, and on rendered stand-ins the counts that it prints."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from sparcal.rendering.parts import TRAINING_LIGHT, part_seeds, render_part
from speed.studies import bottle_lot as study

FEW = {"TRAINED": 12, "SHOWN": 4, "JUDGED": 6}


def test_the_lamp_is_warm_dim_uneven_and_the_camera_stands_aside(tmp_path):
    Image.fromarray(np.full((64, 64, 3), 200, np.uint8)).save(tmp_path / "grey.png")
    seen = study.under_lamp(tmp_path / "grey.png", 0).astype(float)
    red, _, blue = seen.mean(axis=(0, 1))
    assert red > blue
    assert seen.mean() < 0.72 * 200
    assert seen[:, -8:].mean() > 1.3 * seen[:, :8].mean()
    assert study.LAMP.shift == (4, 0)


def test_a_row_of_the_table_holds_the_counts():
    row = {"seed": 1, "asked": "auto", "found": 61, "bad": 63, "rejected": 2, "good": 50, "said": "As calibrated."}
    assert study.table([row]).splitlines()[-1] == "| 1 | auto | 61 of 63 | 2 of 50 | As calibrated. |"


@pytest.mark.slow
def test_every_reference_judges_the_same_parts(tmp_path, monkeypatch):
    for name, value in FEW.items():
        monkeypatch.setattr(study, name, value)
    for folder, count, defect in (("train/good", 18, None), ("test/good", 6, None), ("test/hole", 5, "dent")):
        (tmp_path / folder).mkdir(parents=True)
        for number, seed in enumerate(part_seeds(0, len(folder), count)):
            image = render_part(seed, light=TRAINING_LIGHT, product="plate", defect=defect, size=128).image
            Image.fromarray(image).save(tmp_path / folder / f"{number:03}.png")
    rows = study.bottle_lot(tmp_path, 0)
    assert [row["asked"] for row in rows] == ["own, not calibrated", *study.ASKED]
    assert all((row["bad"], row["good"]) == (5, 6) for row in rows)
    assert all(0 <= row["found"] <= 5 and 0 <= row["rejected"] <= 6 for row in rows)
    assert rows[0]["said"] == ""
    assert "planted defects" in rows[1]["said"]
