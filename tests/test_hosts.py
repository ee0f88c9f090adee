"""The nine hosts as data, and each one end to end on rendered parts with weights that are at hand."""

from __future__ import annotations

import pytest
import torch

import sparcal.hosts
from sparcal.corrections import Identity
from sparcal.detectors import DETECTORS
from sparcal.encoders import parse_spec
from sparcal.errors import DataError
from sparcal.hosts import HOSTS, load_host
from sparcal.imaging.encode import encode
from sparcal.rendering.parts import make_demo
from sparcal.score import score_lot
from sparcal.sparc import SPARC
from sparcal.types import Features
from tests.detectors.test_anomalyclip import prompt_state
from tests.support.tiny_clip import tiny_encoder

PAPER_ORDER = ["patchcore", "padim", "spade", "anomalydino", "subspacead", "winclip", "musc", "anomalyclip-v", "anomalyclip-m"]  # fmt: skip
VIT = "timm:vit_tiny_patch16_224.augreg_in21k?size=96"


def test_the_nine_of_the_main_table():
    assert list(HOSTS) == PAPER_ORDER
    for host in HOSTS.values():
        assert host.detector in DETECTORS
        assert DETECTORS[host.detector]().family == host.family
        assert str(parse_spec(host.encoder)) == host.encoder


@pytest.fixture(scope="module")
def parts():
    return make_demo(3, train=6, good=6, bad=6, size=64)


@pytest.mark.parametrize(
    ("name", "encoder"),
    [(name, encoder) for name in PAPER_ORDER[:7] for encoder in ("bundled?size=64", VIT)]
    + [("anomalyclip-v", "openclip"), ("anomalyclip-m", "openclip"), ("winclip", "openclip"), ("musc", "openclip")],
)
def test_end_to_end_with_and_without_sparc(name, encoder, parts, tmp_path, monkeypatch):
    prompts = None
    if encoder == "openclip":  # a CLIP small enough for tests, read as the host asks
        words = HOSTS[name].recipe.blocks
        monkeypatch.setattr(sparcal.hosts, "load_encoder", lambda *_, **__: tiny_encoder(words))
    if HOSTS[name].prompts:
        prompts = tmp_path / HOSTS[name].prompts / "epoch_15.pth"
        prompts.parent.mkdir()
        torch.save({"prompt_learner": prompt_state()}, prompts)
    loaded, detector = load_host(name, encoder=encoder, weights="random:0" if encoder == VIT else None, prompts=prompts)
    train, good, bad = (
        encode(loaded, [part.image for part in group]).features
        for group in (parts.train, parts.lot_good, parts.lot_bad)
    )
    test = Features.cat([good[4:], bad])
    base, corrected = (
        score_lot(detector, test, reference=train, calibration=good[:4], correction=correction)
        for correction in (Identity(), SPARC())
    )
    for scores in (base, corrected):
        assert torch.isfinite(scores.image).all()
        assert torch.isfinite(scores.cell).all()
    assert not torch.equal(base.cell, corrected.cell)
    if HOSTS[name].family == "cls":
        assert torch.equal(base.image, corrected.image)
    else:
        assert not torch.equal(base.image, corrected.image)


def test_refusals():
    with pytest.raises(DataError, match="There is no host 'patchcor'; choose from patchcore, padim"):
        load_host("patchcor")
    with pytest.raises(
        DataError,
        match="anomalyclip-v takes the prompt file of the folder 9_12_4_multiscale_visa, got none: set --prompts",
    ):
        load_host("anomalyclip-v")
    with pytest.raises(DataError, match=r"The host padim takes no prompt file, got x.pth"):
        load_host("padim", encoder="bundled", prompts="x.pth")
    with pytest.raises(DataError, match="Texts need an openclip encoder, got bundled"):
        load_host("winclip", encoder="bundled", category="bottle")
