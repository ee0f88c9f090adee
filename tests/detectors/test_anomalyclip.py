"""AnomalyCLIP: prompt files of the authors' structure, the prompted text tower and the scores against slow versions."""

from __future__ import annotations

import math

import open_clip
import pytest
import torch
from safetensors.torch import save_file
from torch.nn.functional import cosine_similarity

from sparcal.artifacts import load, save
from sparcal.corrections import CORRECTIONS
from sparcal.detectors.anomalyclip import AnomalyCLIP
from sparcal.detectors.prompts import LearnedPrompts, learned_prototypes, read_prompts
from sparcal.errors import NotFittedError, ShapeError, WeightsError
from sparcal.imaging.maps import input_map
from sparcal.score import score_lot
from sparcal.sparc import SPARC
from sparcal.types import Features
from tests.support.tiny_clip import (
    CHANNELS,
    DEPTH,
    GRID,
    PATCH,
    TEXT_DEPTH,
    TEXT_WIDTH,
    pixels,
    slow_attention,
    slow_two_streams,
    tiny_clip,
    tiny_encoder,
)

WORDS, DEEP_WORDS = 12, 4  # learned vectors in front of the text, and at the inputs of deeper blocks


def prompt_state(seed=0):
    """The tensors of an authors' checkpoint, for a text tower of another width and depth."""
    random = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(shape, generator=random)

    deep = {f"compound_prompts_text.{i}": draw(DEEP_WORDS, TEXT_WIDTH) for i in range(TEXT_DEPTH - 1)}
    unused = {f"compound_prompt_projections.{i}.weight": draw(8, TEXT_WIDTH) for i in range(TEXT_DEPTH - 1)}
    buffers = {f"token_prefix_{side}": draw(1, 1, 1, TEXT_WIDTH) for side in ("pos", "neg")}
    ids = {f"tokenized_prompts_{side}": torch.ones(1, 1, 32, dtype=torch.int32) for side in ("pos", "neg")}
    context = {f"ctx_{side}": draw(1, 1, WORDS, TEXT_WIDTH) for side in ("pos", "neg")}
    return {**unused, **deep, **context, **buffers, **ids}


@pytest.fixture
def prompt_file(tmp_path):
    path = tmp_path / "9_12_4_multiscale_visa" / "epoch_15.pth"
    path.parent.mkdir()
    torch.save({"prompt_learner": prompt_state()}, path)
    return path


# --- prompt files


def test_a_prompt_file_is_read_and_named_after_its_folder(prompt_file):
    prompts = read_prompts(prompt_file)
    state = prompt_state()
    assert prompts.name == "9_12_4_multiscale_visa"
    assert torch.equal(prompts.normal, state["ctx_pos"][0, 0])
    assert torch.equal(prompts.anomalous, state["ctx_neg"][0, 0])
    assert len(prompts.deep) == TEXT_DEPTH - 1
    assert torch.equal(prompts.deep[2], state["compound_prompts_text.2"])


def test_a_relative_path_has_a_folder_too(prompt_file, monkeypatch):
    monkeypatch.chdir(prompt_file.parent)
    assert read_prompts("epoch_15.pth").name == "9_12_4_multiscale_visa"


def test_deep_vectors_are_read_in_the_order_of_their_numbers(tmp_path):
    deep = {f"compound_prompts_text.{i}": torch.full((2, 3), float(i)) for i in reversed(range(12))}
    context = {"ctx_pos": torch.zeros(1, 1, 4, 3), "ctx_neg": torch.zeros(1, 1, 4, 3)}
    save_file({**context, **deep}, tmp_path / "prompts.safetensors")
    assert [int(x[0, 0]) for x in read_prompts(tmp_path / "prompts.safetensors").deep] == list(range(12))


def test_a_safetensors_file_holds_the_same(prompt_file):
    wanted = {n: x for n, x in prompt_state().items() if n.startswith(("ctx", "compound_prompts_text"))}
    save_file(wanted, prompt_file.parent / "small.safetensors")
    encoder = tiny_encoder()
    first, second = (
        AnomalyCLIP().with_prompts(encoder, prompt_file.parent / name) for name in ("epoch_15.pth", "small.safetensors")
    )
    assert torch.equal(first.text_, second.text_)
    assert first.prompts == second.prompts == "9_12_4_multiscale_visa"


def test_a_missing_prompt_file_names_where_it_comes_from(tmp_path):
    with pytest.raises(WeightsError) as caught:
        read_prompts(tmp_path / "epoch_15.pth")
    for part in ("epoch_15.pth, got none there", "checkpoints/9_12_4_multiscale_visa", "authors' repository"):
        assert part in str(caught.value)


@pytest.mark.parametrize("change", ["missing", "shape", "width", "no_deep", "no_tensors"])
def test_a_file_of_another_kind_is_refused(tmp_path, change):
    state = prompt_state()
    if change == "missing":
        del state["ctx_neg"]
    elif change == "shape":
        state["ctx_neg"] = state["ctx_neg"][..., :-1, :]
    elif change == "width":
        state["compound_prompts_text.1"] = torch.zeros(4, TEXT_WIDTH + 1)
    elif change == "no_deep":
        state = {n: x for n, x in state.items() if not n.startswith("compound_prompts_text")}
    else:
        state = {}
    torch.save({"prompt_learner": state}, tmp_path / "epoch_15.pth")
    with pytest.raises(
        WeightsError, match=r"epoch_15.pth must hold ctx_pos and ctx_neg .*, got .*: give an AnomalyCLIP"
    ):
        read_prompts(tmp_path / "epoch_15.pth")


class Surprise:
    def __reduce__(self):
        return (print, ("code from a file was run",))


def test_nothing_in_a_prompt_file_is_run(tmp_path, capsys):
    torch.save({"prompt_learner": prompt_state(), "more": Surprise()}, tmp_path / "epoch_15.pth")
    with pytest.raises(WeightsError, match=r"epoch_15.pth cannot be read as safetensors or plain tensors"):
        read_prompts(tmp_path / "epoch_15.pth")
    assert "was run" not in capsys.readouterr().out


def test_prompts_of_another_text_tower_are_refused():
    prompts = LearnedPrompts("x", torch.zeros(12, 768), torch.zeros(12, 768), (torch.zeros(4, 768),) * 8)
    with pytest.raises(ShapeError, match=r"must be \(2, t, 16\) for this text tower, got \(2, 12, 768\)"):
        learned_prototypes(tiny_encoder(), prompts)


# --- the prompted text tower


def slow_prompted_text(model, words, context, deep):
    """One text through the text tower, token by token, causal: each token attends to itself and those before it."""
    ids = open_clip.tokenize([" ".join(["X"] * len(context)) + " " + words], context_length=32)[0].tolist()
    assert ids[1] == ids[len(context)]  # every placeholder is one token
    end = ids.index(max(ids))
    x = torch.stack([model.token_embedding.weight[i] for i in ids[: end + 1]])  # nothing behind the end is attended to
    for i, vector in enumerate(context):
        x[1 + i] = vector
    x = x + model.positional_embedding[: end + 1]
    for number, block in enumerate(model.transformer.resblocks):
        if number > 0 and number - 1 < len(deep):
            for i, vector in enumerate(deep[number - 1]):
                x[1 + i] = vector.half().float()
        normed = block.ln_1(x)
        seen = [slow_attention(block.attn, normed[: i + 1], values_only=False)[i] for i in range(len(x))]
        x = x + torch.stack(seen)
        x = x + block.mlp(block.ln_2(x))
    vector = model.ln_final(x[end]) @ model.text_projection
    return vector / vector.norm()


def test_learned_prompts_equal_a_slow_text_tower(prompt_file):
    model = tiny_clip(quick_gelu=True)
    prompts = read_prompts(prompt_file)
    text = learned_prototypes(tiny_encoder(model=model), prompts)
    normal = slow_prompted_text(model, "object.", prompts.normal, prompts.deep)
    anomalous = slow_prompted_text(model, "damaged object.", prompts.anomalous, prompts.deep)
    torch.testing.assert_close(text, torch.stack([normal, anomalous]), rtol=1e-4, atol=1e-4)


def test_deep_vectors_matter_and_are_rounded_to_half(prompt_file):
    encoder, prompts = tiny_encoder(), read_prompts(prompt_file)

    def text(deep):
        return learned_prototypes(encoder, LearnedPrompts("x", prompts.normal, prompts.anomalous, tuple(deep)))

    full = text(prompts.deep)
    assert torch.equal(text([x.half().float() for x in prompts.deep]), full)
    assert not torch.allclose(text(prompts.deep[:-1]), full, atol=1e-4)


# --- scores


def slow_share(vector, text):
    normal, anomalous = (math.exp(float(cosine_similarity(vector, t, dim=0)) / 0.07) for t in text)
    return anomalous / (normal + anomalous)


def test_a_small_host_equals_the_slow_one_end_to_end(prompt_file):
    """Pixels to scores, both streams and both texts, by loops."""
    model = tiny_clip(quick_gelu=True)
    visual = model.visual
    encoder = tiny_encoder("path=vv&gelu=quick", model=model)
    detector = AnomalyCLIP().with_prompts(encoder, prompt_file).fit(None)
    scores = detector.score(encoder(pixels()))
    prompts = read_prompts(prompt_file)
    text = [
        slow_prompted_text(model, "object.", prompts.normal, prompts.deep),
        slow_prompted_text(model, "damaged object.", prompts.anomalous, prompts.deep),
    ]
    for n in range(2):
        after, vector = slow_two_streams(visual, pixels()[n], start=1)
        assert float(scores.image[n]) == pytest.approx(slow_share(vector @ visual.proj, text), rel=1e-3, abs=1e-4)
        tokens = visual.ln_post(after[DEPTH - 1])[1:] @ visual.proj
        expected = torch.tensor([slow_share(token, text) for token in tokens]).view(GRID, GRID)
        torch.testing.assert_close(scores.cell[n], expected, rtol=1e-3, atol=1e-4)
    assert input_map(scores.cell, detector.map_rule).shape == (2, 14 * GRID, 14 * GRID)


TEXT = torch.randn(2, CHANNELS, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def lot():
    encoder = tiny_encoder("path=vv")
    assert encoder.cell_pixels == PATCH
    return {"calibration": encoder(pixels(3, seed=1)), "test": encoder(pixels(4, seed=2))}


@pytest.mark.parametrize("name", sorted(CORRECTIONS))
def test_no_correction_changes_an_image_score_by_a_bit(lot, name):
    detector = AnomalyCLIP().with_text(TEXT)
    plain = detector.fit(None).score(lot["test"])
    correction = CORRECTIONS[name]()
    reference = lot["calibration"][[0, 2]]  # for corrections that need one; this detector has none
    fitted = correction.fit(lot["calibration"], reference)
    corrected = detector.fit(None).score(fitted.apply(lot["test"]))
    assert torch.equal(corrected.image, plain.image)


def test_sparc_changes_the_map_of_a_lot_and_not_its_image_scores(lot):
    detector = AnomalyCLIP().with_text(TEXT)
    plain = detector.fit(None).score(lot["test"])
    scores = score_lot(detector, lot["test"], reference=None, calibration=lot["calibration"], correction=SPARC())
    assert torch.equal(scores.image, plain.image)
    assert not torch.allclose(scores.cell, plain.cell, atol=1e-3)


def test_maps_of_several_layers_are_summed(lot):
    (level,), vector = lot["test"].levels, lot["test"].cls
    one = AnomalyCLIP().with_text(TEXT).score(lot["test"])
    two = AnomalyCLIP(layers=2).with_text(TEXT).score(Features((level, level), vector))
    torch.testing.assert_close(two.cell, 2 * one.cell)
    assert torch.equal(two.image, one.image)


def test_prompts_survive_saving(lot, prompt_file, tmp_path):
    detector = AnomalyCLIP().with_prompts(tiny_encoder(), prompt_file).fit(None)
    restored = load(save(detector, tmp_path / "anomalyclip.safetensors"))
    assert restored.prompts == "9_12_4_multiscale_visa"
    assert torch.equal(restored.score(lot["test"]).cell, detector.score(lot["test"]).cell)


# --- refusals


def test_prompts_must_be_given_first(lot):
    for use in (lambda: AnomalyCLIP().fit(None), lambda: AnomalyCLIP().score(lot["test"])):
        with pytest.raises(NotFittedError, match=r"two prompts before use, got none: call with_prompts"):
            use()


def test_text_must_be_two_vectors():
    with pytest.raises(ShapeError, match=r"AnomalyCLIP.with_text needs two text vectors .*, got \(3, 4\)"):
        AnomalyCLIP().with_text(torch.ones(3, 4))


def test_features_that_do_not_suit_are_refused(lot):
    (level,), vector = lot["test"].levels, lot["test"].cls
    detector = AnomalyCLIP().with_text(TEXT)
    with pytest.raises(ShapeError, match=r"works on 1 level\(s\) of one grid, got 2 on 4x4: set the encoder's layers"):
        detector.score(Features((level, level), vector))
    with pytest.raises(ShapeError, match=r"works on 2 level\(s\) of one grid, got 2 on 3x4 \+ 4x4"):
        AnomalyCLIP(layers=2).with_text(TEXT).score(Features((level, level[:, 1:]), vector))
    with pytest.raises(ShapeError, match="Features.cls of 24 columns, got none: use an encoder with path=vv"):
        detector.score(Features((level,)))
    with pytest.raises(ShapeError, match="Features.cls of 24 columns, got 25 columns"):
        detector.score(Features((level,), torch.cat([vector, vector[:, :1]], dim=1)))
