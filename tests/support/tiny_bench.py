"""Runs of the benchmark small enough for tests: trees of the four real layouts, tiny encoders with random weights."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file

from sparcal.bench.datasets import Counts
from sparcal.bench.experiments import experiment_source
from sparcal.bench.plan.experiment import parse_experiment
from tests.support.trees import write_tree

RESNET = "timm:test_resnet.r160_in1k?resize=square&size=64"
VIT = "timm:test_vit.r160_in1k?resize=square&size=64"
CLIP = "openclip:ViT-B-32/openai?resize=square&size=128"
CATEGORIES = {
    "mvtec-ad-2": ("can", "vial"),  # the first, and the first of the qualitative figure
    "aebad-s": ("background",),
    "visa": ("candle",),
    "rad": ("bolt",),
}
COUNTS = Counts(train=9, validation=1, test_good=12, test_bad=6)


def write_trees(folder: Path) -> Path:
    """The first categories of each benchmark, below a folder that $SPARCAL_DATA can name."""
    for dataset, categories in CATEGORIES.items():
        write_tree(dataset, folder / dataset, per_split=COUNTS, categories=categories)
    return folder


def write_prompts(path: Path, *, width: int = 512, seed: int = 0) -> Path:
    """A prompt file in AnomalyCLIP's form, for the text tower of ViT-B-32."""
    random = torch.Generator().manual_seed(seed)
    tensors = {name: torch.randn(1, 1, 12, width, generator=random) for name in ("ctx_pos", "ctx_neg")}
    tensors |= {f"compound_prompts_text.{i}": torch.randn(4, width, generator=random) for i in range(8)}
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, path)
    return path


def tiny_experiment(name: str, folder: Path) -> str:
    """A file with a packaged experiment, the encoders it compares replaced by as many tiny ones."""
    text = experiment_source(name)
    backbones = parse_experiment(text, name).backbones
    for number, encoder in enumerate(backbones.values()):
        text = text.replace(f'"{encoder}"', f'"timm:test_resnet.r160_in1k?resize=square&size={64 + 8 * number}"')
    path = folder / f"{name}.toml"
    path.write_text(text)
    return str(path)


def tiny(folder: Path, name: str) -> list[str]:
    """Options of `sparcal bench run` that make an experiment tiny: encoders with random weights, few units."""
    options = ["--limit-categories", "1", "--limit-seeds", "2", "--weights", "random:0"]
    if name != "backbones":  # it compares encoders, so one for all is refused
        options += ["--encoder", RESNET]
    for host in ("anomalydino", "subspacead", "winclip", "musc"):
        reads = host == "winclip" and name == "winclip-modes"  # texts and windows need a CLIP
        options += ["--encoder", f"{host}={CLIP if reads else VIT}"]
    for letter in "vm":
        prompts = write_prompts(folder / f"prompts-{letter}" / "prompts.safetensors", seed=ord(letter))
        options += ["--encoder", f"anomalyclip-{letter}={CLIP}", "--prompts", f"anomalyclip-{letter}={prompts}"]
    return [*options, "--cache", str(folder / "cache"), "--workers", "1", "--threads", "1"]
