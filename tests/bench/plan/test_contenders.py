"""Who takes part: texts reach WinCLIP, settings reach the detector, and the category decides the words."""

from __future__ import annotations

import pytest
import torch

import sparcal.hosts
from sparcal.bench.datasets import DATASETS
from sparcal.bench.plan.contenders import category_words, load_contender, resolve_encoder, resolve_settings
from sparcal.bench.plan.unit import Unit
from sparcal.detectors.prompts import text_prototypes
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
