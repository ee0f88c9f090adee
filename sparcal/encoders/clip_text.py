"""The text tower of an open_clip model: plain texts, and texts whose first words are learned vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sparcal.errors import DataError, ShapeError

TEXTS_AT_ONCE = 64


def encode_texts(model: Any, texts: Sequence[str]) -> Tensor:
    """(n, c): the embedding of each text, not normalised."""
    ids = tokenise(model, texts)
    return torch.cat([_run(model, part, model.token_embedding(part)) for part in torch.split(ids, TEXTS_AT_ONCE)])


def encode_prompted(model: Any, texts: Sequence[str], context: Tensor, *, deep: Sequence[Tensor] = ()) -> Tensor:
    """(n, c): embeddings of texts whose first words are replaced by learned vectors, not normalised.

    Args:
        texts: each begins with as many one-token placeholder words as `context` has vectors.
        context: (n, t, width); takes the place of the t tokens after the start token.
        deep: (m, width) each, m <= t; the first takes the place of the m tokens after the start token at the input of
            the second block, the next one at the third, and so on.
    """
    _check_prompts(model, texts, context, deep)
    ids = tokenise(model, texts)
    x = model.token_embedding(ids)  # (n, tokens, width)
    return _run(model, ids, _replace(x, context.to(x)), deep)


def _run(model: Any, ids: Tensor, x: Tensor, deep: Sequence[Tensor] = ()) -> Tensor:
    """The text tower on token vectors `x` (n, tokens, width)."""
    ends = ids.argmax(dim=-1)  # the end token has the largest id
    used = int(ends.max()) + 1  # no token sees those behind it, so what follows the last end need not be computed
    x = (x + model.positional_embedding)[:, :used]
    for number, block in enumerate(model.transformer.resblocks):
        if 1 <= number <= len(deep):
            x = _replace(x, deep[number - 1].to(x).expand(len(x), -1, -1))
        x = block(x, attn_mask=model.attn_mask[:used, :used])
    pooled = model.ln_final(x)[torch.arange(len(x), device=x.device), ends]
    projected: Tensor = pooled @ model.text_projection
    return projected


def _replace(x: Tensor, vectors: Tensor) -> Tensor:
    """`x` with `vectors` (n, t, width) in place of the t tokens after the start token."""
    return torch.cat([x[:, :1], vectors, x[:, 1 + vectors.shape[1] :]], dim=1)


def tokenise(model: Any, texts: Sequence[str]) -> Tensor:
    """(n, context length) token ids; a text that is too long is refused, not cut."""
    import open_clip

    if isinstance(texts, str) or not texts:
        got = repr(texts) if isinstance(texts, str) else "none"
        raise DataError(f"A CLIP encoder takes a sequence of at least one text, got {got}: write ['a text'].")
    limit = model.context_length
    ids: Tensor = open_clip.tokenize(list(texts), context_length=limit + 1)  # cut texts end in the last column
    for text, beyond in zip(texts, ids[:, limit].tolist(), strict=True):
        if beyond:
            raise DataError(
                f"A text must have at most {limit} tokens, start and end included, got more in {text[:60]!r}: "
                "use fewer words."
            )
    return ids[:, :limit].to(model.token_embedding.weight.device)


def _check_prompts(model: Any, texts: Sequence[str], context: Tensor, deep: Sequence[Tensor]) -> None:
    width = model.token_embedding.embedding_dim
    if context.ndim != 3 or len(context) != len(texts) or context.shape[2] != width:
        raise ShapeError(
            f"Learned context vectors must be ({len(texts)}, t, {width}) for this text tower, "
            f"got {tuple(context.shape)}: use prompts that were learned on this model."
        )
    blocks = len(model.transformer.resblocks)
    wrong = [tuple(x.shape) for x in deep if x.ndim != 2 or x.shape[1] != width or len(x) > context.shape[1]]
    if wrong or len(deep) >= blocks:
        got = f"one of shape {wrong[0]}" if wrong else f"{len(deep)} of them"
        raise ShapeError(
            f"Deep prompt vectors must be at most {blocks - 1} tensors (m, {width}) with m up to {context.shape[1]}, "
            f"got {got}: use prompts that were learned on this model."
        )
