"""open_clip encoders from weight files of every kind and from the hub; models and files that cannot serve are refused."""

from __future__ import annotations

import re
import sys

import open_clip
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from sparcal.encoders import load_encoder
from sparcal.encoders.openclip import OPENAI_MEAN, OPENAI_STD
from sparcal.encoders.weights import FOLDER_VARIABLE, read_weights
from sparcal.errors import DataError, MissingExtraError, WeightsError
from tests.support.tiny_clip import CONFIG, pixels, tiny_clip, tiny_encoder


@pytest.fixture
def registered(monkeypatch):
    """open_clip knows the tiny model, with weights of OpenAI's kind and of another."""
    published = {
        "openai": {"quick_gelu": True, "mean": OPENAI_MEAN, "std": OPENAI_STD},
        "other": {"mean": (0.5,) * 3, "std": (0.5,) * 3},
    }
    monkeypatch.setitem(open_clip.factory._MODEL_CONFIGS, "tiny", CONFIG)
    monkeypatch.setitem(open_clip.pretrained._PRETRAINED, "tiny", published)
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)


@pytest.mark.usefixtures("registered")
def test_the_activation_follows_the_weights_unless_said():
    openai = load_encoder("openclip:tiny/openai", weights="random:1")
    other = load_encoder("openclip:tiny/other", weights="random:1")
    musc = load_encoder("openclip:tiny/openai?gelu=plain", weights="random:1")
    assert [e.spec.gelu for e in (openai, other, musc)] == ["quick", "plain", "plain"]
    assert other.preprocess.mean == (0.5,) * 3
    assert torch.equal(musc(pixels()).levels[0], other(pixels()).levels[0])
    assert not torch.allclose(openai(pixels()).levels[0], musc(pixels()).levels[0], atol=1e-3)
    assert "gelu=quick" in openai.id
    assert openai.id.endswith("&weights=random-1")


@pytest.mark.usefixtures("registered")
def test_weight_files_of_every_kind_load(tmp_path, monkeypatch):
    state = tiny_clip().state_dict()
    expected = tiny_encoder()(pixels()).levels[0]
    save_file(state, tmp_path / "plain.safetensors")
    numbers = {
        "input_resolution": torch.tensor(64),
        "context_length": torch.tensor(32),
        "vocab_size": torch.tensor(49408),
    }
    torch.save({"epoch": 3, "state_dict": {f"module.{n}": x for n, x in state.items()}}, tmp_path / "trained.pt")
    torch.save({**{n: x.double() for n, x in state.items()}, **numbers}, tmp_path / "openai.pt")
    for file in ("plain.safetensors", "trained.pt", "openai.pt"):
        encoder = load_encoder("openclip:tiny/other", weights=tmp_path / file)
        torch.testing.assert_close(encoder(pixels()).levels[0], expected)
        assert re.search(r"&weights=sha256-[0-9a-f]{16}$", encoder.id)
    (tmp_path / "plain.safetensors").rename(tmp_path / "tiny_other.safetensors")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    torch.testing.assert_close(load_encoder("openclip:tiny/other")(pixels()).levels[0], expected)


@pytest.mark.usefixtures("registered")
def test_the_hub_is_asked_last(tmp_path, monkeypatch):
    save_file(tiny_clip().state_dict(), tmp_path / "hub.safetensors")
    monkeypatch.setattr(open_clip, "download_pretrained", lambda _: str(tmp_path / "hub.safetensors"))
    torch.testing.assert_close(
        load_encoder("openclip:tiny/other")(pixels()).levels[0], tiny_encoder()(pixels()).levels[0]
    )

    def offline(_):
        raise OSError("no route to host\nsecond line")

    monkeypatch.setattr(open_clip, "download_pretrained", offline)
    with pytest.raises(WeightsError) as caught:
        load_encoder("openclip:tiny/other")
    sentence = str(caught.value)
    for part in ("tiny/other", "no route to host", "tiny_other.safetensors", FOLDER_VARIABLE, "--weights"):
        assert part in sentence
    assert "\n" not in sentence


@pytest.mark.usefixtures("registered")
def test_weight_files_that_do_not_fit_are_refused(tmp_path):
    state = tiny_clip().state_dict()
    del state["visual.proj"]
    save_file(state, tmp_path / "part.safetensors")
    with pytest.raises(WeightsError, match=r"part.safetensors does not fit CLIP: 1 tensors are missing.*visual.proj"):
        load_encoder("openclip:tiny/other", weights=tmp_path / "part.safetensors")


@pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning", "ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.usefixtures("registered")
def test_a_torchscript_archive_is_refused_with_the_way_out(tmp_path):
    layer = nn.Linear(2, 2)
    torch.jit.save(torch.jit.trace(layer, torch.zeros(1, 2)), tmp_path / "ViT.pt")
    with pytest.raises(WeightsError) as caught:
        load_encoder("openclip:tiny/other", weights=tmp_path / "ViT.pt")
    sentence = str(caught.value)
    assert "got a TorchScript archive, which holds code" in sentence
    assert "torch.jit.load('ViT.pt', map_location='cpu').state_dict()" in sentence
    assert "safetensors.torch.save_file as ViT.safetensors" in sentence
    save_file(torch.jit.load(tmp_path / "ViT.pt", map_location="cpu").state_dict(), tmp_path / "ViT.safetensors")
    assert torch.equal(read_weights(tmp_path / "ViT.safetensors")["weight"], layer.weight)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("openclip:ViT-B-17/openai", r"open_clip has no model 'ViT-B-17' .*close ones: .*ViT-B-16"),
        (
            "openclip:tiny",
            r"must name its weights, got no tag: write openclip:tiny/TAG with one of openai, other; a weight file of your own",
        ),
        ("openclip:tiny/laion", "got the unknown tag 'laion'"),
        (
            "openclip:RN50/openai",
            "needs a model with a plain vision transformer, a class token and a plain text tower, got RN50/openai",
        ),
        ("openclip:ViT-B-16-SigLIP/webli", "needs a model with a plain vision transformer"),
        ("openclip:coca_ViT-B-32/laion2b_s13b_b90k", "needs a model with a plain vision transformer"),
    ],
)
def test_models_that_cannot_serve_are_refused(name, sentence):
    with pytest.raises(DataError, match=sentence):
        load_encoder(name, weights="random:0")


@pytest.mark.parametrize("change", [{"vision_cfg": {"pool_type": "avg"}}, {"text_cfg": {"pool_type": "last"}}])
def test_a_built_model_must_be_plain(change):
    config = {**CONFIG, **{tower: {**CONFIG[tower], **words} for tower, words in change.items()}}
    with pytest.raises(DataError, match="a class token and a plain text tower, got tiny/test"):
        tiny_encoder(model=open_clip.CLIP(**config))


def test_missing_open_clip_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "open_clip", None)
    with pytest.raises(MissingExtraError, match=re.escape("run pip install 'sparcal[clip]'")):
        load_encoder("openclip:ViT-B-16/openai", weights="random:0")
