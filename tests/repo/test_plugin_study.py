"""The study of anomalib's models: folders, counts and going on; tests/integrations/anomalib trains the models themselves."""

from __future__ import annotations

import numpy as np
from PIL import Image

from speed.studies import plugin as study
from speed.studies.lots import Case


def part(value):
    return np.full((8, 8, 3), value, np.uint8)


def case(condition):
    good, bad = [part(n) for n in range(20)], [part(200 + n) for n in range(4)]
    masks = [np.zeros((8, 8), bool)] * 4
    return Case(condition, "bottle", condition, lambda: [part(1)], lambda: good, lambda: (bad, masks, [1.0] * len(bad)))


class Rejecting:
    """Rejects what is bright."""

    trained = 0

    def __init__(self, name, folder, images):
        assert name == "Padim"
        assert folder.is_dir()
        assert len(images) == 1
        Rejecting.trained += 1

    def judge(self, lot):
        assert len(lot.normals) == study.SHOWN
        good, bad = ([bool(image.mean() >= 202) for image in group] for group in (lot.good, lot.bad))
        return {"correction": "sparc", "verdict": "ok", "threshold": 1.0, "good": good, "bad": bad}


def test_a_model_is_trained_once_and_only_for_lots_that_are_not_known():
    lots = [(0, case("one lamp")), (0, case("lamps"))]
    rows = list(study.measure("Padim", lots, [], Rejecting))
    assert [(row["lot"], sum(row["bad"]), sum(row["good"])) for row in rows] == [("one lamp", 2, 0), ("lamps", 2, 0)]
    assert rows[0]["shown"] == [True] * 12
    assert list(study.measure("Padim", lots, rows, Rejecting)) == []
    again = list(study.measure("Padim", [*lots, (1, case("lamps"))], rows, Rejecting))
    assert [(row["lot"], row["seed"]) for row in again] == [("lamps", 1)]
    assert Rejecting.trained == 2


def test_the_table_counts_the_first_parts_and_all():
    row = {"model": "Padim", "lot": "lamps", "correction": "sparc"}
    rows = [
        row | {"seed": 0, "shown": [True] * 15, "good": [False] * 12 + [True] * 3, "bad": [True] * 29 + [False] * 4},
        row | {"seed": 1, "shown": [False] + [True] * 14, "good": [True] + [False] * 14, "bad": [True] * 33},
    ]
    assert study.table(rows).splitlines()[2:] == [
        "| Padim | lamps | 0 | sparc | 29 of 30 | 0 of 12 | 29 of 33 | 3 of 15 | 0 of 0 |",
        "| Padim | lamps | 1 | sparc | 30 of 30 | 1 of 12 | 33 of 33 | 0 of 14 | 1 of 1 |",
        "| **Padim** | all 2 | | | 59 of 60 | 1 of 24 | 62 of 66 | 3 of 29 | 1 of 1 |",
    ]


def test_a_folder_holds_the_images_of_the_last_call_in_order(tmp_path):
    study.write(tmp_path / "parts", [part(n) for n in range(12)])
    folder = study.write(tmp_path / "parts", [part(7), part(9)])
    values = [int(np.asarray(Image.open(path)).mean()) for path in sorted(folder.iterdir())]
    assert values == [7, 9]
