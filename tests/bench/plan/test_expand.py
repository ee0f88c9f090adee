"""Experiment files and their plans: what is read, what is refused, and in which order units run."""

from __future__ import annotations

import json
import os
import time
from itertools import groupby

import pytest

from sparcal.bench.datasets.rendered import Rendering, render_dataset
from sparcal.bench.plan.expand import Overrides, find_data, plan_units
from sparcal.bench.plan.experiment import parse_experiment
from sparcal.bench.plan.unit import Unit
from sparcal.errors import DataError

HEAD = 'name = "x"\ntitle = "t"\n'
UNITS = '[[units]]\ndatasets = ["rad", "aebad-s"]\nhosts = ["patchcore", "padim"]\n'


def plan(text, **options):
    return plan_units(parse_experiment(text, "x.toml"), {}, Overrides(**options))


def test_a_plan_is_the_product_of_its_blocks_and_each_unit_comes_once():
    units = plan(HEAD + UNITS + 'corrections = ["sparc", "coral"]\nks = [4, 8]\nseeds = 3\n' + UNITS)
    assert len(units) == 8 * 2 * (2 * 2 * 3) + 8 * 2 * 2, "the second block adds seeds 3 and 4 of sparc at k = 8"
    assert len(set(units)) == len(units)
    assert {unit.seed for unit in units} == {0, 1, 2, 3, 4}


def test_units_that_share_features_stand_together():
    units = plan(HEAD + UNITS + 'corrections = ["sparc", "coral", "mean-only"]\n')
    groups = [key for key, _ in groupby(units, key=lambda unit: unit.feature_group)]
    assert len(groups) == len(set(groups)) == 8 * 2
    draws = [(u.feature_group, u.k, u.seed) for u in units]
    assert [key for key, _ in groupby(draws)] == list(dict.fromkeys(draws)), "corrections of one draw follow each other"


def test_limits_keep_the_first():
    units = plan(HEAD + UNITS, categories=1, seeds=2)
    assert {unit.category for unit in units} == {"bolt", "background"}
    assert {unit.seed for unit in units} == {0, 1}
    named = plan(HEAD + UNITS + 'categories = ["view", "tape"]\n')
    assert {unit.category for unit in named} == {"view", "tape"}


def test_encoders_come_from_the_call_then_the_file_then_the_host():
    text = HEAD + UNITS + '[encoders]\n"*" = "bundled"\n[settings.patchcore]\ncoreset = 0.5\n'
    encoders = {unit.host: unit.encoder for unit in plan(text)}
    assert encoders == {"patchcore": "bundled", "padim": "bundled"}
    changed = plan(text, encoders={"padim": "bundled?size=128"}, weights={"*": "w.pth"})
    assert {unit.host: unit.encoder for unit in changed} == {"patchcore": "bundled", "padim": "bundled?size=128"}
    assert {unit.weights for unit in changed} == {"w.pth"}
    assert {unit.settings for unit in changed} == {(("coreset", 0.5),), ()}
    assert "wide_resnet50_2" in plan(HEAD + UNITS)[0].encoder


def test_a_runtime_is_part_of_every_units_encoder_and_so_of_its_hash():
    text = HEAD + UNITS + '[encoders]\n"*" = "bundled"\n'
    own, torch, onnx = (plan(text, **options) for options in ({}, {"runtime": "torch"}, {"runtime": "onnx"}))
    assert {unit.encoder for unit in onnx} == {"bundled?runtime=onnx"}
    assert [unit.hash for unit in torch] == [unit.hash for unit in own]
    assert not {unit.hash for unit in onnx} & {unit.hash for unit in own}
    assert str(Overrides(seeds=1, runtime="onnx")) == "only the first 1 seeds, runtime onnx"
    with pytest.raises(
        DataError, match="batchnorm changes the network, which torch alone allows, got bundled.runtime=onnx"
    ):
        plan(text.replace("hosts", 'corrections = ["batchnorm"]\nhosts'), runtime="onnx")


def test_backbones_and_geometry_change_the_encoder():
    variants = 'variants = ["backbone=a", "geometry=full-frame"]\n'
    block = '[[units]]\ndatasets = ["rad"]\nhosts = ["patchcore"]\n'
    units = plan(HEAD + block + variants + '[backbones]\na = "timm:resnet50.tv_in1k"\n')
    encoders = {unit.variant: unit.encoder for unit in units}
    assert encoders["backbone=a"] == "timm:resnet50.tv_in1k"
    assert "resize=pad&size=224" in encoders["geometry=full-frame"]
    assert "crop" not in encoders["geometry=full-frame"]
    with pytest.raises(DataError, match="The experiment x has no backbone 'a'; it names none"):
        plan(HEAD + block + variants)


def test_the_same_work_under_two_names_has_one_hash():
    texts = (
        '["", "rank=7", "on=both", "source=deployment", "contaminated=0", "geometry=centre-crop", "rank=9", "rank=6"]'
    )
    units = plan(
        HEAD + f'[[units]]\ndatasets = ["rad"]\nhosts = ["patchcore"]\nvariants = {texts}\n', categories=1, seeds=1
    )
    assert len(units) == 8
    assert len({unit.hash for unit in units}) == 2


def test_one_encoder_for_all_backbones_is_refused():
    block = '[[units]]\ndatasets = ["rad"]\nhosts = ["patchcore"]\nvariants = ["backbone=a", "backbone=b"]\n'
    text = HEAD + block + '[backbones]\na = "timm:resnet50.tv_in1k"\nb = "timm:resnet18.tv_in1k"\n'
    assert len({unit.encoder for unit in plan(text)}) == 2
    for host in ("*", "patchcore"):
        with pytest.raises(
            DataError, match="compares encoders .backbone=a., so one encoder for patchcore would make its"
        ):
            plan(text, encoders={host: "bundled"})


def test_settings_may_be_lists_and_may_differ_by_dataset():
    block = '[[units]]\ndatasets = ["visa", "rad"]\nhosts = ["musc"]\n'
    settings = {(u.dataset, u.settings) for u in plan(HEAD + block)}
    assert settings == {("visa", (("neighbours", (1, 8, 9)),)), ("rad", ())}, "the authors' values on each dataset"
    more = "[settings.musc]\nradii = [1, 3]\n[settings.musc.rad]\nneighbours = [1, 4]\n"
    settings = {u.dataset: dict(u.settings) for u in plan(HEAD + block + more)}
    assert settings == {
        "visa": {"neighbours": (1, 8, 9), "radii": (1, 3)},
        "rad": {"neighbours": (1, 4), "radii": (1, 3)},
    }
    own = {u.dataset: dict(u.settings) for u in plan(HEAD + block + "[settings.musc.visa]\nneighbours = [1]\n")}
    assert own["visa"] == {"neighbours": (1,)}
    for unit in plan(HEAD + block + more):
        back = Unit.from_json(json.loads(json.dumps(unit.to_json())))
        assert (back, back.hash) == (unit, unit.hash)


def test_a_setting_may_be_a_variant_and_the_encoder_follows_it():
    words = ("", "setting=mode:winclip_plus", "setting=mode:winclip_plus_windows", "setting=mode:zero_shot")
    block = f'[[units]]\ndatasets = ["visa"]\nhosts = ["winclip"]\nvariants = {list(words)}\n'
    units = {unit.variant: unit for unit in plan(HEAD + block, categories=1, seeds=1)}
    assert [dict(units[word].settings).get("mode") for word in words] == [
        None,
        "winclip_plus",
        "winclip_plus_windows",
        "zero_shot",
    ]
    assert "windows" not in units[""].encoder
    assert "cls=1" in units[words[1]].encoder
    assert "windows=2,3&windows_in=cls" in units[words[1]].encoder
    assert "windows=2,3&windows_in=levels" in units[words[2]].encoder
    assert len({unit.hash for unit in units.values()}) == 4
    assert len({unit.setting for unit in units.values()}) == 4, "each has a base of its own"


def test_pictures_are_kept_of_seed_0_only():
    units = plan(HEAD + UNITS + "pictures = true\n")
    assert {unit.seed for unit in units if unit.picture} == {0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name =", "The experiment x.toml must be TOML, got a mistake"),
        (HEAD, "The experiment x.toml must give units, got none"),
        (HEAD + UNITS + "colour = 3\n", "x.toml, \\[\\[units\\]\\] has no key 'colour'; choose from datasets, hosts"),
        (HEAD + UNITS + "[figure]\n", "The experiment x.toml has no key 'figure'"),
        (HEAD + '[[units]]\nhosts = ["padim"]\n', "must give datasets in each \\[\\[units\\]\\], got none"),
        (HEAD + UNITS.replace("padim", "padam"), "unknown host 'padam'; choose from patchcore"),
        (HEAD + UNITS.replace("rad", "red"), "unknown dataset 'red'; choose from mvtec-ad-2"),
        (HEAD + UNITS + 'corrections = ["spark"]\n', "unknown correction 'spark'; choose from identity"),
        (HEAD + UNITS + 'variants = ["range=3"]\n', "unknown variant 'range=3'"),
        (HEAD + UNITS + "ks = [1]\n", "An experiment needs k of 2 or more"),
        (HEAD + UNITS.replace("padim", "fastref"), "fastref calibrates itself, so its correction must be identity"),
        (HEAD + UNITS.replace("padim", "features") + 'corrections = ["coral"]\n', "The host features diagnoses sparc"),
        (
            HEAD + UNITS + 'variants = ["source-mixed"]\n',
            "say how batch-norm statistics are mixed, got them with the correction sparc",
        ),
        (HEAD + UNITS + 'variants = ["calibration-only"]\n', "say how batch-norm statistics are mixed"),
        (
            HEAD + UNITS + 'corrections = ["batchnorm"]\nvariants = ["rank=3"]\n',
            "The correction batchnorm has no rank, got rank=3",
        ),
        (
            HEAD + UNITS + 'corrections = ["batchnorm"]\nvariants = ["on=test"]\n',
            "The correction batchnorm has no on, got on=test",
        ),
        (HEAD + UNITS + 'corrections = ["identity"]\nvariants = ["on=test"]\n', "The correction identity has no on"),
        (HEAD + UNITS + 'corrections = ["coral"]\nvariants = ["rank=3"]\n', "The correction coral has no rank"),
        (
            HEAD + UNITS.replace("padim", "musc") + 'variants = ["on=reference"]\n',
            "The host musc has no reference that on=ref",
        ),
        (HEAD + UNITS.replace("padim", "features") + 'variants = ["rank=2"]\n', "diagnoses SPARC as it is, got rank=2"),
        (
            HEAD
            + UNITS.replace("padim", "features").replace('"patchcore", ', "")
            + 'variants = ["setting=coreset:0.5"]\n',
            "The host features has no detector, got setting=coreset: leave it out",
        ),
        (HEAD + UNITS + 'variants = ["source=train+full-normal"]\n', "full-normal is about normals of the test split"),
        (HEAD + UNITS + 'variants = ["full-normal+scene-disjoint"]\n', "full-normal shows every good scene"),
        (
            HEAD + UNITS + 'variants = ["setting=coresets:0.1"]\n',
            "The host patchcore has no setting 'coresets'; choose",
        ),
        (HEAD + UNITS + 'variants = ["setting=coreset"]\n', "The variant setting takes FIELD:VALUE, got 'coreset'"),
        (HEAD + UNITS + "[settings.padim]\nchanels = 3\n", "The host padim has no setting 'chanels'; choose from"),
        (
            HEAD + UNITS + "[settings.musc]\nradii = [1]\n",
            "must be about a host of the experiment x, which has patchcore",
        ),
        (
            HEAD + UNITS + "[settings.padim.visa]\nchannels = 3\n",
            "must be about a dataset of the experiment x, which has rad",
        ),
        (HEAD + UNITS + '[rendered]\ncategories = ["fog"]\n', "Rendered categories are lights, random"),
        (HEAD + UNITS + "[rendered]\nsize = 8\n", "Rendering needs at least 1 part of each kind and 64 pixels"),
    ],
)
def test_what_cannot_be_meant_is_refused(text, message):
    with pytest.raises(DataError, match=message):
        parse_experiment(text, "x.toml")


def test_anomalyclip_needs_its_prompts():
    with pytest.raises(DataError, match="The host anomalyclip-v needs its learned prompts, got none: give --prompts"):
        plan(HEAD + UNITS.replace("padim", "anomalyclip-v"))


def test_data_is_found_where_it_was_given_or_below_the_folder_of_all(tmp_path, monkeypatch):
    experiment = parse_experiment(HEAD + UNITS, "x.toml")
    monkeypatch.delenv("SPARCAL_DATA", raising=False)
    with pytest.raises(
        DataError, match="The experiment x needs a copy of aebad-s, got none: give --data aebad-s=FOLDER, or"
    ):
        find_data(experiment, {"rad": tmp_path}, tmp_path)
    with pytest.raises(
        DataError, match=r"needs a copy of rad, aebad-s, got none: give --data rad=FOLDER --data aebad-s"
    ):
        find_data(experiment, {}, tmp_path)
    (tmp_path / "aebad-s").mkdir()
    monkeypatch.setenv("SPARCAL_DATA", str(tmp_path))
    found = find_data(experiment, {"rad": tmp_path / "r"}, tmp_path)
    assert found == {"rad": tmp_path / "r", "aebad-s": tmp_path / "aebad-s"}
    with pytest.raises(DataError, match="unknown dataset 'raad'; choose from mvtec-ad-2"):
        find_data(experiment, {"raad": tmp_path}, tmp_path)


def test_parts_are_rendered_once(tmp_path):
    rendering = Rendering(categories=("lights",), train=1, good=2, bad=1, size=64)
    root = render_dataset(tmp_path, rendering)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*.png")}
    assert len(before) == 5
    assert render_dataset(tmp_path, rendering) == root
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*.png")} == before
    assert render_dataset(tmp_path, Rendering(categories=("none",), train=1, good=2, bad=1, size=64)) != root
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_what_a_killed_process_rendered_is_swept_after_an_hour(tmp_path):
    young, old = tmp_path / ".rendered-abc", tmp_path / ".rendered-def"
    for folder in (young, old):
        (folder / "parts").mkdir(parents=True)
    os.utime(old, (time.time() - 7200,) * 2)
    render_dataset(tmp_path, Rendering(categories=("none",), train=1, good=2, bad=1, size=64))
    assert young.exists(), "another machine may be at it"
    assert not old.exists()


def test_anomalydino_is_cropped_on_visa_alone():
    block = '[[units]]\ndatasets = ["visa", "rad"]\nhosts = ["anomalydino"]\nvariants = ["", "geometry=full-frame"]\n'
    encoders = {(unit.dataset, unit.variant): unit.encoder for unit in plan(HEAD + block)}
    assert "crop=448" in encoders["visa", ""]
    assert "crop" not in encoders["rad", ""]
    assert "resize=pad&size=448&multiple=14" in encoders["visa", "geometry=full-frame"]
