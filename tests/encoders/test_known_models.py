"""Models and tags that nobody knows are refused before anything is built, fetched or written."""

from __future__ import annotations

import sys

import open_clip
import pytest
import timm
import torch

from sparcal.cli import run
from sparcal.encoders import load_encoder, parse_spec
from sparcal.encoders.known_models import close_names, require_known_model
from sparcal.errors import EncoderNameError, ShapeError
from sparcal.hosts import HOSTS
from sparcal.station.station import Station
from tests.support.tiny_line import fill

NOBODY_KNOWS = {
    "timm:nope.x": "timm has no model 'nope' .*; close ones: none, timm.list_models",
    "timm:wide_resnet50.tv_in1k": "close ones: wide_resnet50_2, ",
    "timm:Resnet_18.tv_in1k": "close ones: .*resnet18",
    "timm:../x.y": "timm has no model ''",
    "timm:hf_hub:some/one": "timm has no model",
    "timm:resnet18": "got no tag: write timm:resnet18.TAG with one of ",
    "timm:resnet18.": "got no tag",
    "timm:resnet18.tv_in2k": r"got the unknown tag 'tv_in2k': write timm:resnet18.TAG with one of tv_in1k, .* in all",
    "openclip:nope/openai": "open_clip has no model 'nope' .*; close ones: none, open_clip.list_models",
    "openclip:vit-b-16/openai": "close ones: ViT-B-16, ",
    "openclip:hf-hub:some/one": "open_clip has no model 'hf-hub:some'",
    "openclip:ViT-B-16": "got no tag: write openclip:ViT-B-16/TAG with one of openai, ",
    "openclip:ViT-B-16/opnai": "got the unknown tag 'opnai': write openclip:ViT-B-16/TAG with one of openai, ",
}
NO_SUCH_SOURCE = ("nope:x", "nope", "resnet18.tv_in1k", "timm:", "openclip:")
CANNOT_BE_MEANT = {
    "bundled?layers=3": "layers of bundled takes strides 2, 4, 8, 16, 32, got 3",
    "bundled?crop=200&size=100": "must go together, got this: Preprocess.crop must be at most size",
    "timm:vgg11.tv_in1k": "whose layers can be read .* got vgg11.tv_in1k, a VGG",
    "timm:coat_tiny.in1k": "whose layers can be read .* got coat_tiny.in1k, a CoaT",
    "timm:test_vit.r160_in1k?size=100": "whole patches of 16 pixels, got size=100 .* use 96 or 112, or multiple=16",
    "timm:test_vit.r160_in1k?resize=short&size=100": "whole patches of 16 pixels, got size=100",
}


@pytest.fixture(autouse=True)
def unasked(monkeypatch):
    """Nothing is built and no hub is asked: whoever tries it fails."""

    def asked(*_words, **_settings):
        raise AssertionError("the name was not looked at first")

    monkeypatch.delenv("SPARCAL_WEIGHTS", raising=False)
    monkeypatch.setattr("sparcal.encoders.hub.silence_of_the_hub", asked)
    monkeypatch.setattr(open_clip, "download_pretrained", asked)
    return asked


@pytest.mark.parametrize("name", NOBODY_KNOWS)
def test_what_nobody_knows_is_refused_before_it_is_looked_for(name, monkeypatch, unasked):
    monkeypatch.setattr(timm, "create_model", unasked)
    for weights in (None, "random:0"):
        with pytest.raises(EncoderNameError, match=NOBODY_KNOWS[name]) as caught:
            load_encoder(name, weights=weights)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize("name", [*NOBODY_KNOWS, *NO_SUCH_SOURCE])
def test_the_call_is_wrong_and_nothing_is_left_behind(name, tmp_path, capsys):
    root = fill(tmp_path)
    assert run(["fit", str(root / "train"), "--station", str(root / "station"), "--encoder", name]) == 2
    said = capsys.readouterr()
    assert not said.out
    assert said.err.count("\n") == 1
    assert not (root / "station").exists()


@pytest.mark.parametrize("name", CANNOT_BE_MEANT)
def test_words_that_a_network_cannot_follow_are_a_wrong_call(name, tmp_path, capsys):
    weights = [] if name.startswith("bundled") else ["--weights", "random:0"]
    with pytest.raises(EncoderNameError, match=CANNOT_BE_MEANT[name]):
        load_encoder(name, weights=weights[1] if weights else None)
    if not weights:  # the command takes no random ones
        root = fill(tmp_path)
        assert run(["fit", str(root / "train"), "--station", str(root / "station"), "--encoder", name]) == 2
        assert capsys.readouterr().err.count("\n") == 1
        assert not (root / "station").exists()


def test_a_side_that_an_image_brings_gets_a_sentence():
    encoder = load_encoder("timm:test_vit.r160_in1k?resize=short&size=96", weights="random:0")
    with pytest.raises(ShapeError, match=r"multiples of its patch size 16, got \(1, 3, 96, 129\): add multiple=16"):
        encoder(torch.zeros(1, 3, 96, 129))
    assert encoder(torch.zeros(1, 3, 96, 128)).grids[0][:2] == (6, 8)


def test_the_library_refuses_it_as_early(tmp_path):
    with pytest.raises(EncoderNameError, match="timm has no model 'nope'"):
        Station.fit([], path=tmp_path / "station", encoder="timm:nope.x")
    assert not (tmp_path / "station").exists()


def test_a_benchmark_is_refused_before_its_first_unit(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["--cache", "cache", "--out", "results", "--limit-categories", "1", "--limit-seeds", "1"]
    assert run(["bench", "run", "demo", *words, "--encoder", "timm:nope.x"]) == 2
    assert capsys.readouterr().err.startswith("Error: timm has no model 'nope'")
    assert not (tmp_path / "results").exists()


def test_what_the_paper_uses_is_known():
    for host in HOSTS.values():
        require_known_model(parse_spec(host.encoder))


def test_without_open_clip_its_names_wait_for_loading(monkeypatch):
    monkeypatch.setitem(sys.modules, "open_clip", None)
    require_known_model(parse_spec("openclip:ViT-B-16/openai"))


def test_close_names_go_on_or_are_spelt_alike():
    assert close_names("vit", ["swin", "vit_small", "VIT-B"]) == ["vit_small", "VIT-B"]
    assert close_names("resnet_18", ["resnet18", "vit"]) == ["resnet18"]
    assert close_names("", ["vit"]) == []
