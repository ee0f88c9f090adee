"""Who takes part: texts reach WinCLIP, settings reach the detector, and the category decides the words."""

from __future__ import annotations

import pytest
import torch
from PIL import Image

import sparcal.hosts
from sparcal.bench.datasets import DATASETS
from sparcal.bench.experiments import experiment_source
from sparcal.bench.plan.contenders import category_words, load_contender, resolve_encoder, resolve_settings
from sparcal.bench.plan.experiment import parse_experiment
from sparcal.bench.plan.unit import Unit
from sparcal.detectors.prompts import text_prototypes
from sparcal.encoders import parse_spec
from tests.support.tiny_clip import tiny_encoder


def winclip(mode, *, dataset="aebad-s", category="view"):
    settings = resolve_settings("winclip", dataset, {"mode": mode})
    encoder = resolve_encoder("winclip", dataset=dataset, settings=settings)
    return Unit(dataset, category, "winclip", "sparc", 8, 0, encoder=encoder, settings=settings)


@pytest.mark.parametrize("mode", ["winclip_plus", "winclip_plus_windows", "zero_shot"])
def test_the_categorys_words_become_texts(mode, monkeypatch):
    asked = {}

    def load(text, **_):
        asked["encoder"] = text
        return tiny_encoder("cls=1&windows=2,3&windows_in=cls")

    monkeypatch.setattr(sparcal.hosts, "load_encoder", load)
    unit = winclip(mode)
    contender = load_contender(unit)
    assert category_words(unit) == "blade"
    assert contender.detector.mode == mode
    assert torch.equal(contender.detector.text_, text_prototypes(contender.encoder, "blade"))
    assert "windows=2,3" in asked["encoder"]


def test_patches_alone_need_no_words_and_so_any_encoder_will_do():
    unit = winclip("patch_only")
    assert category_words(unit) == ""
    assert "windows" not in unit.encoder


def test_words_say_what_the_images_show():
    assert DATASETS["mvtec-ad-2"].describe("fruit_jelly") == "fruit jelly"
    assert {DATASETS["aebad-s"].describe(name) for name in DATASETS["aebad-s"].categories} == {"blade"}
    assert {DATASETS["rad"].describe(name) for name in DATASETS["rad"].categories} == {"object"}


def test_settings_are_the_authors_then_the_files():
    assert resolve_settings("musc", "visa", {}) == (("neighbours", (1, 8, 9)),)
    assert resolve_settings("musc", "mvtec-ad-2", {}) == ()
    assert resolve_settings("musc", "visa", {"visa": {"neighbours": [1]}}) == (("neighbours", (1,)),)


def test_fastrecon_sees_what_its_authors_code_sees():
    """256 x 256 squashed by Lanczos, crop 224, both layers averaged 3 x 3, layer 3 by nearest neighbour: 1536 channels."""
    spec = parse_spec(resolve_encoder("fastrecon", dataset="mvtec-ad-2"))
    assert (spec.resize, spec.size, spec.crop, spec.resample) == ("square", 256, 224, "lanczos")
    assert (spec.layers, spec.aggregate) == ((8, 16), "pool-nearest")
    preprocess = spec.preprocess((0.0,) * 3, (1.0,) * 3, size=224, resample="bilinear")
    _, geometry = preprocess(Image.new("RGB", (4224, 1056)))
    top, left, bottom, right = geometry.covered
    assert (bottom - top) * (right - left) / (4224 * 1056) == pytest.approx(0.766, abs=0.001), "not a crop's 19 %"


def test_fastref_stands_on_patchcore_as_its_text_says():
    assert resolve_encoder("fastref") == resolve_encoder("patchcore")


def test_diagnostics_look_at_features_before_any_pooling():
    spec = parse_spec(resolve_encoder("features"))
    assert (spec.layers, spec.aggregate) == ((8, 16), "nearest")


def test_openai_clip_has_quick_gelu_as_a_backbone():
    experiment = parse_experiment(experiment_source("backbones"), "backbones")
    assert "quickgelu" in experiment.backbones["clip_b"]
