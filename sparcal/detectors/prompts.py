"""What "normal" and "anomalous" mean in words: WinCLIP's ensemble of sentences, AnomalyCLIP's learned prompts.

Both end as one (2, c) tensor of unit vectors, normal first, in the space of an encoder's images and texts.

AnomalyCLIP's authors publish two prompt sets, as `epoch_15.pth` in two folders. The end of a folder's name says which
dataset they test on, not which one the prompts were learned on:

    folder                      learned on   in the SPARC paper
    9_12_4_multiscale           VisA         its numbers are those called AnomalyCLIP_M
    9_12_4_multiscale_visa      MVTec AD     its numbers are those called AnomalyCLIP_V

The paper says that V was learned on VisA and M on MVTec AD, but its V column on VisA (mean image AUROC 82.1) is the
authors' own log of the second folder (82.0), and its M column (88.9) fits prompts tested on what they were learned on.
So prompt sets are named after their folder here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import normalize

from sparcal.arrays import from_array
from sparcal.encoders.weights import read_weights
from sparcal.errors import DataError, ShapeError, WeightsError
from sparcal.settings import in_short

NORMAL_STATES = (
    "{}", "flawless {}", "perfect {}", "unblemished {}", "{} without flaw", "{} without defect", "{} without damage",
)  # fmt: skip
ANOMALOUS_STATES = ("damaged {}", "{} with flaw", "{} with defect", "{} with damage")

# The list of both public ports with published numbers (Accurate-WinCLIP, anomalib): "jpeg corrupted ... of the" twice
# and "of a" never, no "cropped ... of a". The full product of words would have 22.
TEMPLATES = (
    "a cropped photo of the {}.",
    *(f"a {look} photo of {article} {{}}." for look in ("close-up", "bright", "dark", "blurry") for article in ("a", "the")),
    "a jpeg corrupted photo of the {}.",
    "a jpeg corrupted photo of the {}.",
    *(f"a photo of {article}{size} {{}}." for size in ("", " small", " large") for article in ("a", "the")),
    *(f"a photo of {article} {{}} for {use}." for use in ("visual inspection", "anomaly detection") for article in ("a", "the")),
)  # fmt: skip

PLACEHOLDER = "X"  # one token, whose embedding is replaced by a learned vector


class TextEncoder(Protocol):
    """The text side of `sparcal.encoders.openclip.OpenClipEncoder`."""

    def encode_text(self, texts: Sequence[str]) -> Tensor:
        """(n, c), one vector per text."""
        ...

    def encode_prompted(self, texts: Sequence[str], context: Tensor, *, deep: Sequence[Tensor] = ()) -> Tensor:
        """(n, c), with learned vectors in place of the placeholder words."""
        ...


def text_prototypes(encoder: TextEncoder, category: str, *, templates: Sequence[str] = TEMPLATES) -> Tensor:
    """WinCLIP's two text vectors for a category: mean over all sentences of a state, then unit length.

    Args:
        category: what the images show, as a person would say it ("metal nut"); underscores count as spaces.
        templates: sentences with one {} for the category in its state.
    """
    name = category.replace("_", " ").strip()
    if not name:
        raise DataError(f"A category must be a word or two such as 'metal nut', got {category!r}: name the part.")
    sentences = [prompt_sentences(name, states, templates) for states in (NORMAL_STATES, ANOMALOUS_STATES)]
    return normalize(torch.stack([encoder.encode_text(texts).mean(dim=0) for texts in sentences]), dim=-1)


def prompt_sentences(name: str, states: Sequence[str], templates: Sequence[str] = TEMPLATES) -> list[str]:
    """Every template filled with every state of `name`."""
    return [template.format(state.format(name)) for state in states for template in templates]


@dataclass(frozen=True, eq=False)
class LearnedPrompts:
    """The learned vectors of an AnomalyCLIP prompt file.

    Args:
        name: of the folder that the file came from.
        normal: (t, width), in front of "object.".
        anomalous: (t, width), in front of "damaged object.".
        deep: (m, width) each, for the inputs of the second and later text blocks.
    """

    name: str
    normal: Tensor
    anomalous: Tensor
    deep: tuple[Tensor, ...]


def read_prompts(path: str | Path) -> LearnedPrompts:
    """The prompts in an authors' `.pth` file, or in a safetensors file with the same tensors.

    Only `ctx_pos`, `ctx_neg` and `compound_prompts_text.*` are used; the authors' files hold much else that their
    own code never reads, or that follows from CLIP.
    """
    file = Path(path)
    if not file.is_file():
        raise WeightsError(
            f"AnomalyCLIP's prompts were expected in the file {file}, got none there: take epoch_15.pth from the folder "
            "checkpoints/9_12_4_multiscale or checkpoints/9_12_4_multiscale_visa of its authors' repository."
        )
    state = read_weights(file, inside=("prompt_learner",))
    deep = [state[name] for name in (f"compound_prompts_text.{i}" for i in range(len(state))) if name in state]
    normal, anomalous = state.get("ctx_pos"), state.get("ctx_neg")
    if normal is None or anomalous is None or not _belong_together(normal, anomalous, deep):
        got = ", ".join(f"{name} {tuple(x.shape)}" for name, x in list(state.items())[:4]) or "no tensors"
        raise WeightsError(
            f"The prompt file {file.name} must hold ctx_pos and ctx_neg (1, 1, t, width) and compound_prompts_text.0 "
            f"and on (m, width), got {got}: give an AnomalyCLIP prompt file."
        )
    name = file.resolve().parent.name
    return LearnedPrompts(name, normal[0, 0].float(), anomalous[0, 0].float(), tuple(x.float() for x in deep))


def _belong_together(normal: Tensor, anomalous: Tensor, deep: Sequence[Tensor]) -> bool:
    """Whether these are (1, 1, t, width) twice, and at least one (m, width)."""
    alike = normal.shape == anomalous.shape and normal.ndim == 4 and normal.shape[:2] == (1, 1)
    return alike and len(deep) > 0 and all(x.ndim == 2 and x.shape[1] == normal.shape[3] for x in deep)


def learned_prototypes(encoder: TextEncoder, prompts: LearnedPrompts) -> Tensor:
    """AnomalyCLIP's two text vectors: learned vectors before "object." and "damaged object.", unit length."""
    words = " ".join([PLACEHOLDER] * len(prompts.normal))
    # The authors round the deep vectors, and only those, to half precision before they enter the text tower.
    deep = [x.half().float() for x in prompts.deep]
    context = torch.stack([prompts.normal, prompts.anomalous])
    texts = [f"{words} object.", f"{words} damaged object."]
    return normalize(encoder.encode_prompted(texts, context, deep=deep), dim=-1)


def two_texts(text: object, who: str, made_by: str) -> Tensor:
    """Two vectors (2, c), normal first, at unit length, or a ShapeError where `text` is something else."""
    kept = from_array(text)
    if not isinstance(kept, Tensor) or kept.ndim != 2 or len(kept) != 2 or not kept.is_floating_point():
        got = str(tuple(kept.shape)) if isinstance(kept, Tensor) and kept.is_floating_point() else in_short(text)
        raise ShapeError(
            f"{who}.with_text needs two text vectors (2, c), normal first, got {got}: make them with {made_by}."
        )
    if not bool(torch.isfinite(kept).all()):
        raise DataError(f"{who}.with_text needs finite text vectors, got NaN or infinity: make them with {made_by}.")
    return normalize(kept, dim=-1)


def anomalous_share(vectors: Tensor, text: Tensor, temperature: float) -> Tensor:
    """Softmax over (normal, anomalous) of the cosines to both text vectors, at "anomalous".

    Args:
        vectors: (..., c), of any length.
        text: (2, c), unit vectors, normal first.
    """
    cosines = normalize(vectors, dim=-1) @ text.to(vectors).mT
    return (cosines / temperature).softmax(dim=-1)[..., 1]
