"""Units against the same comparison written out by hand: features, draw, base, corrected, metrics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from sparcal.bench.datasets import DATASETS, Counts, check_copy, list_records, read_mask
from sparcal.bench.metrics import METRICS, aupro, auroc
from sparcal.bench.plan.contenders import load_contender, resolve_encoder
from sparcal.bench.plan.expand import Overrides, find_data, plan_units
from sparcal.bench.plan.experiment import parse_experiment
from sparcal.bench.plan.protocol import make_draw
from sparcal.bench.plan.unit import Unit
from sparcal.bench.plan.variant import Variant
from sparcal.bench.run.evaluator import Evaluator
from sparcal.bench.run.row import ROW_COLUMNS, read_rows, write_row
from sparcal.bench.run.workplace import Workplace
from sparcal.corrections import CORRECTIONS
from sparcal.encoders.batchnorm import adapt_batchnorm
from sparcal.errors import DataError
from sparcal.imaging.encode import encode
from sparcal.imaging.maps import native_map, outside_value
from sparcal.imaging.read import read_batches
from sparcal.score import score_lot
from sparcal.sparc import SPARC
from tests.support.trees import write_tree

RESNET = "timm:test_resnet.r160_in1k?resize=square&size=64"
VIT = "timm:test_vit.r160_in1k?resize=square&size=64"


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    root = tmp_path_factory.mktemp("ad2")
    counts = Counts(train=6, validation=1, test_good=12, test_bad=6)
    return write_tree("mvtec-ad-2", root, per_split=counts, categories=("can",))


@pytest.fixture
def evaluator(copy, tmp_path):
    return Evaluator(Workplace({"mvtec-ad-2": str(copy)}, str(tmp_path / "results"), str(tmp_path / "cache")))


def unit(host="patchcore", correction="sparc", variant="", *, encoder=RESNET, k=4, seed=0):
    geometry = Variant.parse(variant).geometry
    text = resolve_encoder(host, other=encoder, geometry=geometry)
    return Unit("mvtec-ad-2", "can", host, correction, k, seed, variant, text, weights="random:0")


def by_hand(copy, unit, encoder=None):
    """Base and corrected metrics, straight from the definitions, nothing shared and nothing cached."""
    contender = load_contender(unit)
    encoder, detector = encoder or contender.encoder, contender.detector
    records = list_records("mvtec-ad-2", copy, category="can")
    draw = make_draw(
        records, dataset="mvtec-ad-2", category="can", k=unit.k, seed=unit.seed, variant=Variant.parse(unit.variant)
    )

    def features(chosen):
        return encode(encoder, [r.image for r in chosen], batch_size=1)

    test = features(draw.evaluated)
    calibration = features(draw.calibration).features
    reference = None
    if detector.family == "reference":
        reference = features([r for r in records if r.split == "train"]).features
    if unit.host.startswith("fast"):
        reference = calibration
    answers = []
    for name in ("identity", unit.correction if unit.correction != "batchnorm" else "identity"):
        scores = score_lot(
            detector, test.features, reference=reference, calibration=calibration, correction=CORRECTIONS[name]()
        )
        outside = outside_value(scores.cell)
        pairs = zip(scores.cell, test.geometries, strict=True)
        maps = [native_map(cell, detector.map_rule, geometry, outside=outside) for cell, geometry in pairs]
        masks = [read_mask(r, m.shape) for r, m in zip(draw.evaluated, maps, strict=True)]
        image = auroc([r.label for r in draw.evaluated], scores.image.numpy())
        answers.append([100 * image, *(100 * area for area in aupro(masks, maps))])
    return answers


def numbers(row, side):
    return [row[f"{side}_{name}"] for name in METRICS]


@pytest.mark.parametrize(
    ("host", "correction", "variant", "encoder"),
    [
        ("patchcore", "sparc", "", RESNET),
        ("padim", "global-subspace", "scene-disjoint", RESNET),
        ("spade", "coral", "full-normal", RESNET),
        ("anomalydino", "sparc", "contaminated=2", VIT),
        ("subspacead", "sparc-recentred", "source=train", VIT),
        ("musc", "sparc", "", VIT),
        ("fastrecon", "identity", "", RESNET),
        ("fastref", "identity", "", RESNET),
    ],
)
@pytest.mark.filterwarnings("ignore::sparcal.sparc.EvidenceWarning")
def test_a_row_is_the_comparison_by_hand(copy, evaluator, host, correction, variant, encoder):
    asked = unit(host, correction, variant, encoder=encoder)
    row, picture = evaluator.run(asked)
    base, corrected = by_hand(copy, asked)
    np.testing.assert_allclose(numbers(row, "base"), base, atol=1e-3)
    np.testing.assert_allclose(numbers(row, "corrected"), corrected, atol=1e-3)
    assert picture is None
    if correction not in ("identity",):
        assert numbers(row, "corrected") != numbers(row, "base")


@pytest.mark.parametrize(("word", "weight"), [("calibration-only", 0), ("source-mixed", 16), ("full-normal", 0)])
def test_batch_norm_encodes_everything_again(copy, evaluator, word, weight):
    asked = unit("patchcore", "batchnorm", word)
    row, _ = evaluator.run(asked)
    assert numbers(row, "base") == numbers(evaluator.run(unit())[0], "base")
    encoder = load_contender(asked).encoder
    images = [copy / path for path in row["calibration"]]
    assert len(images) == (12 if word == "full-normal" else 4)
    pixels = next(read_batches(images, encoder.preprocess, batch_size=len(images))).pixels
    adapted = adapt_batchnorm(encoder, pixels, source_weight=weight)
    np.testing.assert_allclose(numbers(row, "corrected"), by_hand(copy, asked, adapted)[0], atol=1e-3)


def test_features_and_base_are_shared_by_corrections_and_draws(evaluator, monkeypatch):
    first, _ = evaluator.run(unit())
    assert first["extracted"] == 24
    monkeypatch.setattr("sparcal.bench.run.cache.FeatureCache._encoded", lambda *_: pytest.fail("encoded again"))
    second, _ = evaluator.run(unit(correction="mean-only"))
    other_draw, _ = evaluator.run(unit(seed=1))
    assert numbers(second, "base") == numbers(first, "base")
    assert numbers(second, "corrected") != numbers(first, "corrected")
    assert second["calibration"] == first["calibration"]
    assert other_draw["calibration"] != first["calibration"]
    assert second["extracted"] == other_draw["extracted"] == 0


def test_features_of_two_runtimes_are_kept_apart(evaluator):
    own, _ = evaluator.run(unit())
    other, _ = evaluator.run(unit(encoder=f"{RESNET}&runtime=onnx"))
    assert (own["extracted"], other["extracted"]) == (24, 24)
    assert other["encoder_id"] == f"{own['encoder_id']}&runtime=onnx"
    np.testing.assert_allclose(numbers(other, "corrected"), numbers(own, "corrected"), atol=0.5)


def test_a_fresh_process_gives_the_same_row(copy, evaluator, tmp_path):
    place = Workplace({"mvtec-ad-2": str(copy)}, str(tmp_path / "r2"), str(tmp_path / "cache2"))
    for asked in (unit(), unit("musc", encoder=VIT)):
        rows = [evaluator.run(asked)[0], evaluator.run(asked)[0], Evaluator(place).run(asked)[0]]
        traces = [{k: v for k, v in row.items() if not k.endswith("_s") and k != "extracted"} for row in rows]
        assert traces[0] == traces[1] == traces[2]


def test_padim_does_not_feel_the_mean(evaluator):
    row, _ = evaluator.run(unit("padim", "mean-only"))
    np.testing.assert_allclose(numbers(row, "corrected"), numbers(row, "base"), atol=1e-4)


def test_rank_and_side_reach_the_correction(evaluator):
    seen = {
        text: numbers(evaluator.run(unit(variant=text))[0], "corrected") for text in ("", "rank=3", "rank=1", "on=test")
    }
    assert seen["rank=3"] == seen[""], "k - 1 is the default"
    assert len({tuple(values) for values in seen.values()}) == 3
    with pytest.raises(DataError, match="The correction mean-only has no rank, got rank=2: leave it out"):
        evaluator.run(unit(correction="mean-only", variant="rank=2"))


def test_full_frame_pads_and_sees_the_whole_image(copy, evaluator):
    crop = "timm:test_resnet.r160_in1k?resize=short&size=64&crop=48"
    asked = unit(variant="geometry=full-frame", encoder=crop)
    assert asked.encoder == "timm:test_resnet.r160_in1k?resize=pad&size=48"
    row, _ = evaluator.run(asked)
    np.testing.assert_allclose(numbers(row, "corrected"), by_hand(copy, asked)[1], atol=1e-3)


def test_an_undefined_draw_has_no_numbers(tmp_path):
    counts = Counts(train=6, validation=1, test_good=12, test_bad=6)
    two = write_tree("mvtec-ad-2", tmp_path / "two", per_split=counts, categories=("can",), lightings=6)
    place = Workplace({"mvtec-ad-2": str(two)}, str(tmp_path / "results"), str(tmp_path / "cache"))
    row, _ = Evaluator(place).run(unit(variant="scene-disjoint", k=8))  # 8 of 2 x 6 images touch both scenes
    assert row["status"] == "undefined"
    assert row["reason"] == "the draw leaves no normal image to evaluate"
    assert numbers(row, "base") == [None] * 3
    write_row(row, tmp_path / "row.parquet")
    assert read_rows([tmp_path / "row.parquet"]) == [row]


def test_diagnostics_are_sums_that_can_be_pooled(evaluator):
    row, _ = evaluator.run(unit("features"))
    found = row["diagnostics"]
    cells = 8 * 8 * (row["evaluated_good"] + row["evaluated_bad"])
    assert found["base_anomalous_count"] + found["base_normal_count"] == cells
    assert 0 < found["rho_anom_sum"] <= found["rho_anom_count"]
    assert found["isotropic"] == 3 / 240
    assert numbers(row, "base") == [None] * 3


def test_a_row_comes_back_from_its_file_whole(evaluator, tmp_path):
    for number, asked in enumerate((unit(), unit("features"))):
        row, _ = evaluator.run(asked)
        assert tuple(row) == ROW_COLUMNS
        path = tmp_path / f"{number}.parquet"
        write_row(row, path)
        assert read_rows([path]) == [row]
        assert row["unit"] == asked.hash
        assert row["encoder_id"].endswith("weights=random-0")


def test_not_a_number_is_stored_as_missing(evaluator, tmp_path):
    row, _ = evaluator.run(unit())
    row["base_aupro_0.3"] = float("nan")
    write_row(row, tmp_path / "row.parquet")
    assert read_rows([tmp_path / "row.parquet"])[0]["base_aupro_0.3"] is None


def test_the_picture_shows_the_median_defect(copy, evaluator):
    asked = replace(unit(), picture=True)
    row, picture = evaluator.run(asked)
    records = [r for r in list_records("mvtec-ad-2", copy, category="can") if r.label == 1]
    areas = sorted((int(read_mask(r, _native(r)).sum()), r.image.as_posix()) for r in records)
    assert picture.name == areas[2][1].rsplit("/", 1)[1], "the lower median of six"
    assert picture.image.shape[:2] == picture.mask.shape == picture.base.shape == picture.corrected.shape
    assert picture.mask.sum() == areas[2][0]
    assert not np.array_equal(picture.base, picture.corrected)
    assert row["status"] == "done"


def _native(record):
    from PIL import Image

    with Image.open(record.image) as image:
        return image.height, image.width


def test_the_foreground_comes_from_uncorrected_features(copy, evaluator):
    """AnomalyDINO's mask, reached from an experiment: the same cells are background before and after SPARC."""
    plain = unit("anomalydino", encoder=VIT.replace("64", "160"))
    masked = replace(plain, settings=(("mask", "cls"), ("threshold", 3.0)))
    rows = [evaluator.run(asked)[0] for asked in (plain, masked, plain)]
    assert numbers(rows[0], "base") == numbers(rows[2], "base"), "features with a mask stay with their setting"
    assert numbers(rows[0], "base") != numbers(rows[1], "base")
    contender = load_contender(masked)
    records = [r for r in list_records("mvtec-ad-2", copy, category="can") if r.split == "test"]
    features = encode(contender.encoder, [r.image for r in records], batch_size=1).features
    known = contender.prepare(features)
    assert torch.equal(known.levels[0], features.levels[0])
    corrected = SPARC().fit(known[:4]).apply(known)
    assert torch.equal(corrected.cls, known.cls)
    assert 0 < float(known.cls.mean()) < 1


def test_settings_of_the_detector(evaluator):
    plain = evaluator.run(unit())[0]
    changed = evaluator.run(replace(unit(), settings=(("coreset", 0.9),)))[0]
    assert "coreset=0.9" in changed["detector"]
    assert changed["unit"] != plain["unit"]
    with pytest.raises(DataError, match="The host patchcore has no setting 'size'; choose from coreset"):
        evaluator.run(replace(unit(), settings=(("size", 3),)))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (replace(unit(), dataset="visa"), "The copy of visa must be named, got mvtec-ad-2: give --data visa=FOLDER"),
        (unit("anomalydino", "batchnorm", encoder=VIT), "adapt_batchnorm needs an encoder with batch-norm layers"),
        (unit("musc", "coral", encoder=VIT), "Coral needs the reference features"),
    ],
)
def test_what_cannot_be_run_is_refused_in_a_sentence(evaluator, asked, message):
    with pytest.raises(DataError, match=message):
        evaluator.run(asked)


def test_a_unit_comes_back_from_json():
    asked = replace(unit(variant="rank=2"), settings=(("coreset", 0.5),), picture=True)
    assert Unit.from_json(asked.to_json()) == asked
    assert Unit.from_json(asked.to_json()).hash == asked.hash
    assert len({asked.hash, replace(asked, seed=1).hash, replace(asked, variant="").hash}) == 3
    assert str(asked) == "mvtec-ad-2 can patchcore sparc rank=2 k=4 seed=0"
    with pytest.raises(DataError, match="A unit is written with the fields category, correction"):
        Unit.from_json({**asked.to_json(), "colour": "red"})


def test_a_dataset_is_one_file_and_one_line_of_the_catalogue(tmp_path, monkeypatch):
    """Registered and nothing else: it can be checked, planned, described and run."""
    mine = replace(DATASETS["folder"], name="mine", title="Mine", words={"alpha": "screw"})
    monkeypatch.setitem(DATASETS, "mine", mine)
    counts = Counts(train=6, validation=0, test_good=8, test_bad=3)
    root = write_tree("folder", tmp_path / "mine", per_split=counts, categories=("alpha",))
    assert check_copy("mine", root).ok
    text = f'name = "x"\ntitle = "t"\n[[units]]\ndatasets = ["mine"]\nhosts = ["patchcore"]\nks = [4]\nseeds = 1\n[encoders]\n"*" = "{RESNET}"\n'
    experiment = parse_experiment(text, "x")
    (planned,) = plan_units(
        experiment, find_data(experiment, {"mine": root}, tmp_path), Overrides(weights={"*": "random:0"})
    )
    place = Workplace({"mine": str(root)}, str(tmp_path / "results"), str(tmp_path / "cache"))
    row, _ = Evaluator(place).run(planned)
    assert (row["dataset"], row["category"], row["evaluated_good"], row["evaluated_bad"]) == ("mine", "alpha", 4, 3)
    assert DATASETS["mine"].describe("alpha") == "screw"
