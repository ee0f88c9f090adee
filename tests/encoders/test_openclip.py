"""open_clip encoders: tokens, positions, windows, the local stream and texts against open_clip itself and slow loops."""

from __future__ import annotations

import math

import open_clip
import pytest
import torch

from sparcal.encoders import clip_vision, load_encoder, parse_spec
from sparcal.encoders.clip_vision import window_embeddings, window_members
from sparcal.encoders.openclip import OPENAI_MEAN, OPENAI_STD, from_openclip_model
from sparcal.encoders.positions import resize_positions
from sparcal.encoders.spec import Recipe
from sparcal.encoders.vv_attention import value_attention
from sparcal.errors import DataError, ShapeError
from sparcal.imaging.encode import encode
from sparcal.types import Encoder
from tests.support.tiny_clip import (
    CHANNELS,
    CONFIG,
    DEPTH,
    GRID,
    TEXT_WIDTH,
    WIDTH,
    pixels,
    slow_two_streams,
    tiny_clip,
    tiny_encoder,
)

# --- patch tokens and the image vector


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("tokens", ["raw", "ln_post", "projected"])
def test_tokens_are_those_of_open_clip(tokens, quick):
    model = tiny_clip(quick_gelu=quick)
    features = tiny_encoder(f"layers=1,-1&cls=1&tokens={tokens}", model=model)(pixels())
    own = model.visual.forward_intermediates(pixels(), indices=[1, 3], normalize_intermediates=tokens != "raw")
    for level, layer in zip(features.levels, own["image_intermediates"], strict=True):
        expected = layer.permute(0, 2, 3, 1)
        expected = expected @ model.visual.proj if tokens == "projected" else expected
        torch.testing.assert_close(level, expected)
    torch.testing.assert_close(features.cls, model.encode_image(pixels()))


def test_the_default_is_the_last_block_after_ln_post_without_image_vector():
    encoder = tiny_encoder()
    model = tiny_clip()
    model.visual.output_tokens = True
    features = encoder(pixels())
    assert isinstance(encoder, Encoder)
    assert features.grids == ((GRID, GRID, WIDTH),)
    assert features.cls is None
    torch.testing.assert_close(features.levels[0].flatten(1, 2), model.visual(pixels())[1])


def test_layers_can_be_averaged():
    both = tiny_encoder("layers=0,2&tokens=raw")(pixels()).levels
    (mean,) = tiny_encoder("layers=0,2&tokens=raw&aggregate=mean")(pixels()).levels
    torch.testing.assert_close(mean, (both[0] + both[1]) / 2)


@pytest.mark.parametrize("settings", ["cls=1", "path=vv", "windows=2,3"])
def test_an_image_is_encoded_alone_as_in_a_batch(settings):
    encoder = tiny_encoder(settings)
    together, alone = encoder(pixels(3)), encoder(pixels(3)[1:2])
    for a, b in zip(together[1].levels, alone.levels, strict=True):
        torch.testing.assert_close(a, b)
    if alone.cls is not None:
        torch.testing.assert_close(together[1].cls, alone.cls)


# --- position embeddings


def slow_resize(table, new, kernel, reach):
    """Each value from its neighbours along both axes, one by one; the border value repeats."""
    old = math.isqrt(len(table) - 1)
    cells = table[1:].view(old, old, -1)
    out = torch.zeros(new, new, table.shape[1])
    for y in range(new):
        for x in range(new):
            centre_y, centre_x = (y + 0.5) * old / new - 0.5, (x + 0.5) * old / new - 0.5
            for j in range(math.floor(centre_y) - reach + 1, math.floor(centre_y) + reach + 1):
                for i in range(math.floor(centre_x) - reach + 1, math.floor(centre_x) + reach + 1):
                    weight = kernel(abs(centre_y - j)) * kernel(abs(centre_x - i))
                    out[y, x] += weight * cells[min(max(j, 0), old - 1), min(max(i, 0), old - 1)]
    return torch.cat([table[:1], out.flatten(0, 1)])


def triangle(t):
    return max(0.0, 1 - t)


def cubic(t, a=-0.75):
    if t <= 1:
        return (a + 2) * t**3 - (a + 3) * t**2 + 1
    return a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a if t < 2 else 0.0


@pytest.mark.parametrize("new", [6, 3])
def test_positions_are_resized_as_each_host_does(new):
    table = torch.randn(17, 5, generator=torch.Generator().manual_seed(1))
    bilinear = resize_positions(table, (4, 4), (new, new), "bilinear")
    bicubic = resize_positions(table, (4, 4), (new, new), "bicubic")
    torch.testing.assert_close(bilinear, slow_resize(table, new, triangle, 1))
    torch.testing.assert_close(bicubic, slow_resize(table, new, cubic, 2))
    antialias = resize_positions(table, (4, 4), (new, new), "bicubic-antialias")
    assert not torch.allclose(antialias, bicubic, atol=1e-2)
    assert torch.equal(resize_positions(table, (4, 4), (4, 4), "bilinear"), table)


def test_the_default_resize_is_open_clips_own():
    state = tiny_clip().state_dict()
    larger = tiny_clip(size=96)
    open_clip.model.resize_pos_embed(state, larger)
    larger.load_state_dict(state)
    larger.visual.output_tokens = True
    features = tiny_encoder("size=96")(pixels(size=96))
    assert features.grids == ((6, 6, WIDTH),)
    torch.testing.assert_close(features.levels[0].flatten(1, 2), larger.visual(pixels(size=96))[1])


def test_positions_change_features_only_on_another_grid():
    ways = ["bicubic-antialias", "bicubic", "bilinear"]
    native = [tiny_encoder(f"positions={way}")(pixels()).levels[0] for way in ways]
    resized = [tiny_encoder(f"size=96&positions={way}")(pixels(size=96)).levels[0] for way in ways]
    assert torch.equal(native[0], native[1])
    assert torch.equal(native[0], native[2])
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert not torch.allclose(resized[a], resized[b], atol=1e-3)


# --- windows


@pytest.mark.parametrize("side", [2, 3])
def test_each_window_is_embedded_as_if_it_were_alone(side):
    model = tiny_clip()
    visual = model.visual
    (windows,) = tiny_encoder(f"windows={side}", model=model)(pixels()).levels[1:]
    places = GRID - side + 1
    assert windows.shape == (2, places, places, CHANNELS)
    patches = visual.conv1(pixels()).flatten(2).mT
    tokens = torch.cat([visual.class_embedding.expand(2, 1, -1), patches], dim=1) + visual.positional_embedding
    for n in range(2):
        for y in range(places):
            for x in range(places):
                cells = [1 + (y + j) * GRID + (x + i) for j in range(side) for i in range(side)]
                end = visual.transformer(visual.ln_pre(tokens[n : n + 1, [0, *cells]]))
                expected = visual.ln_post(end[0, 0]) @ visual.proj
                torch.testing.assert_close(windows[n, y, x], expected, rtol=1e-4, atol=1e-4)
    # Tokens on the wrong axis would make windows attend to each other, until all of them are the same.
    assert windows.flatten(1, 2).std(dim=1).min() > 1e-3


def test_windows_of_a_large_batch_are_embedded_in_parts(monkeypatch):
    whole = tiny_encoder("windows=2")(pixels(3)).levels[1]
    calls = []
    original = clip_vision._embed_windows
    monkeypatch.setattr(clip_vision, "_embed_windows", lambda v, w: calls.append(len(w)) or original(v, w))
    torch.testing.assert_close(tiny_encoder("windows=2")(pixels(3)).levels[1], whole)
    assert calls == [3]
    monkeypatch.setattr(clip_vision, "TOKENS_AT_ONCE", 2 * window_members((GRID, GRID), 2).numel())
    torch.testing.assert_close(tiny_encoder("windows=2")(pixels(3)).levels[1], whole)
    assert calls == [3, 2, 1]


def test_windows_travel_in_levels_or_behind_the_image_vector():
    corrected = tiny_encoder("windows=2,3&cls=1")(pixels())
    untouched = tiny_encoder("windows=2,3&windows_in=cls")(pixels())
    assert corrected.grids == ((4, 4, WIDTH), (3, 3, CHANNELS), (2, 2, CHANNELS))
    assert untouched.grids == ((4, 4, WIDTH),)
    vector, twos, threes = untouched.cls.split([CHANNELS, 9 * CHANNELS, 4 * CHANNELS], dim=1)
    assert torch.equal(vector, corrected.cls)
    assert torch.equal(twos.view(2, 3, 3, CHANNELS), corrected.levels[1])
    assert torch.equal(threes.view(2, 2, 2, CHANNELS), corrected.levels[2])


def test_windows_that_do_not_fit_are_refused():
    with pytest.raises(ShapeError, match=r"Windows of 5 x 5 cells must fit the grid, got one of 4 x 4: use smaller"):
        tiny_encoder("windows=5")(pixels())
    with pytest.raises(ShapeError, match="must fit the grid"):
        window_embeddings(tiny_clip().visual, torch.zeros(1, 17, WIDTH), (4, 4), 0)


# --- the local stream


@pytest.mark.parametrize("vv_blocks", [1, 3, 4])
def test_the_local_stream_equals_a_slow_one(vv_blocks):
    model = tiny_clip(quick_gelu=True)
    visual, start = model.visual, DEPTH - vv_blocks
    blocks = list(range(start, DEPTH))
    settings = f"path=vv&vv_blocks={vv_blocks}&layers={','.join(map(str, blocks))}"
    features = tiny_encoder(settings, model=model)(pixels())
    for n in range(2):
        after, vector = slow_two_streams(visual, pixels()[n], start)
        for level, block in zip(features.levels, blocks, strict=True):
            expected = visual.ln_post(after[block])[1:] @ visual.proj
            torch.testing.assert_close(level[n].flatten(0, 1), expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(features.cls[n], vector @ visual.proj, rtol=1e-4, atol=1e-4)


def test_values_attend_to_values_not_as_clip_does():
    attention = tiny_clip().visual.transformer.resblocks[0].attn
    x = torch.randn(2, 6, WIDTH, generator=torch.Generator().manual_seed(0))
    standard = attention(x, x, x, need_weights=False)[0]
    assert not torch.allclose(value_attention(attention, x), standard, atol=1e-2)


def test_the_original_stream_is_clip_and_layers_are_independent():
    model = tiny_clip()
    several = tiny_encoder("path=vv&layers=1,2,3", model=model)(pixels())
    last = tiny_encoder("path=vv", model=model)(pixels())
    assert torch.equal(several.levels[2], last.levels[0])
    assert not torch.allclose(several.levels[0], several.levels[2], atol=1e-2)
    _, end = clip_vision.standard_stream(
        model.visual, clip_vision.embed(model.visual, pixels(), "bilinear")[0], (3,), last=True
    )
    torch.testing.assert_close(last.cls, end[:, 0] @ model.visual.proj)


def test_the_local_stream_has_the_authors_share_of_blocks():
    assert tiny_encoder("path=vv").spec.vv_blocks == 3
    model = open_clip.CLIP(**{**CONFIG, "vision_cfg": {**CONFIG["vision_cfg"], "layers": 24, "width": 8}})
    assert tiny_encoder("path=vv", model=model).spec.vv_blocks == 19


# --- texts


def test_texts_are_encoded_as_open_clip_does():
    model = tiny_clip()
    texts = [f"a photo of part {i}." for i in range(70)]  # more than one chunk
    expected = model.encode_text(open_clip.tokenize(texts, context_length=32))
    torch.testing.assert_close(tiny_encoder(model=model).encode_text(texts), expected)


def test_context_vectors_replace_the_first_words():
    """With the embeddings of real words as "learned" vectors, the placeholder text becomes the real one."""
    model = tiny_clip()
    ids = open_clip.tokenize(["red round small object."], context_length=32)
    context = model.token_embedding(ids)[:, 1:4]
    got = tiny_encoder(model=model).encode_prompted(["X X X object."], context)
    torch.testing.assert_close(got, model.encode_text(ids))


@pytest.mark.parametrize("texts", ["a word", []])
def test_texts_must_be_a_sequence(texts):
    with pytest.raises(DataError, match="takes a sequence of at least one text, got"):
        tiny_encoder().encode_text(texts)


def test_a_long_text_is_refused_not_cut():
    assert tiny_encoder().encode_text(["word " * 30]).shape == (1, CHANNELS)
    with pytest.raises(DataError, match="at most 32 tokens, start and end included, got more in 'word word"):
        tiny_encoder().encode_text(["fine", "word " * 31])


@pytest.mark.parametrize(
    ("context", "deep", "sentence"),
    [
        (torch.zeros(1, 2, TEXT_WIDTH + 1), [], r"must be \(1, t, 16\) for this text tower, got \(1, 2, 17\)"),
        (torch.zeros(2, 2, TEXT_WIDTH), [], r"got \(2, 2, 16\): use prompts"),
        (torch.zeros(1, 2, TEXT_WIDTH), [torch.zeros(3, TEXT_WIDTH)], r"m up to 2, got one of shape \(3, 16\)"),
        (torch.zeros(1, 2, TEXT_WIDTH), [torch.zeros(1, TEXT_WIDTH)] * 4, "at most 3 tensors .* got 4 of them"),
    ],
)
def test_prompts_of_another_text_tower_are_refused(context, deep, sentence):
    with pytest.raises(ShapeError, match=sentence):
        tiny_encoder().encode_prompted(["X X object."], context, deep=deep)


# --- what the spec says


def test_the_id_says_everything_and_can_be_read_back():
    encoder = tiny_encoder("windows=2&size=96")
    words, _, note = encoder.id.rpartition("&weights=")
    assert note == "test"
    again = from_openclip_model(tiny_clip(), parse_spec(words), weights_note="test")
    assert again.id == encoder.id
    assert (again.preprocess.mean, again.preprocess.std) == (OPENAI_MEAN, OPENAI_STD)
    ids = {
        tiny_encoder(s).id for s in ("", "tokens=raw", "layers=2", "positions=bilinear", "path=vv", "size=96", "cls=1")
    }
    assert len(ids) == 7


def test_norm_is_another_word_for_tokens():
    assert tiny_encoder("norm=0").id == tiny_encoder("tokens=raw").id
    assert tiny_encoder("norm=1").id == tiny_encoder("tokens=ln_post").id
    recipe = Recipe(blocks="layers=-1&norm=1")
    spec = recipe.fill(parse_spec("openclip:tiny/test?tokens=projected"), blocks=4)
    assert from_openclip_model(tiny_clip(), spec, weights_note="x").spec.tokens == "projected"


def test_photographs_of_any_shape_are_encoded():
    square = encode(tiny_encoder(), [torch.zeros(50, 70, 3, dtype=torch.uint8).numpy()])
    assert square.features.grids == ((4, 4, WIDTH),)
    kept = encode(tiny_encoder("resize=short&size=64"), [torch.zeros(50, 70, 3, dtype=torch.uint8).numpy()])
    assert kept.features.grids == ((4, 5, WIDTH),)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ("layers=4", r"layers of tiny/test takes blocks 0 to 3 \(negative: from the end\), got 4"),
        ("gelu=quick", "needs gelu=plain of the model as it is built, got"),
        ("tokens=raw&norm=1", "needs tokens=ln_post as norm=1 says"),
        ("windows=2&windows_in=cls&cls=0", "needs cls=1 when windows travel in it"),
        ("windows_in=levels", "needs windows where windows_in is given"),
        ("vv_blocks=2", "needs path=vv where vv_blocks is given"),
        ("windows=2&path=vv", "needs path=standard where windows are given"),
        ("path=vv&vv_blocks=5", "needs vv_blocks of at most 4"),
        ("path=vv&layers=0", "needs layers from 1 on, where the local stream runs"),
        ("windows=1", "needs windows of at least 2 cells"),
        ("size=70", r"whole patches of 16 pixels, got size=70 .*: use 64 or 80\."),
        ("size=10", r"got size=10 .*: use 16 or 32\."),
        ("size=64&crop=50", "got crop=50"),
        ("resize=short&size=64&multiple=8", "got multiple=8"),
        ("tokens=normed", "tokens must be raw or ln_post or projected, got 'normed'"),
        (
            "positions=nearest",
            "positions must be bicubic-antialias or bicubic or bilinear or bicubic-offset, got 'nearest'",
        ),
        ("windows=two", "windows must be integers such as 8,16, got 'two'"),
    ],
)
def test_settings_that_contradict_are_refused(settings, sentence):
    with pytest.raises(DataError, match=sentence):
        tiny_encoder(settings)


@pytest.mark.parametrize(
    "setting",
    ["tokens=raw", "gelu=quick", "path=vv", "vv_blocks=3", "windows=2", "windows_in=cls"],
)
@pytest.mark.parametrize("source", ["bundled", "timm:resnet18.a1_in1k"])
def test_words_about_clip_are_refused_for_other_networks(source, setting):
    with pytest.raises(DataError, match=f"setting {setting.split('=')[0]} is for open_clip models, got it with"):
        parse_spec(f"{source}?{setting}")


def test_a_recipe_about_clip_leaves_other_networks_alone():
    recipe = parse_spec("openclip:tiny/test?tokens=raw&cls=1")
    assert parse_spec("bundled").filled(recipe) == parse_spec("bundled?cls=1")


@pytest.mark.parametrize("shape", [(2, 3, 64, 60), (2, 1, 64, 64), (3, 64, 64)])
def test_pixels_that_are_not_whole_patches_are_refused(shape):
    with pytest.raises(ShapeError, match=r"multiples of its patch size 16, got \("):
        tiny_encoder()(torch.zeros(shape))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "grid", "channels"),
    [
        ("openclip:ViT-B-16-quickgelu/openai?cls=1", (14, 14, 768), 512),
        ("openclip:ViT-B-16-plus-240/laion400m_e31?cls=1", (15, 15, 896), 640),
    ],
)
def test_the_published_sizes(name, grid, channels):
    encoder = load_encoder(name, weights="random:0")
    features = encoder(torch.zeros(1, 3, encoder.preprocess.size, encoder.preprocess.size))
    assert features.grids == (grid,)
    assert features.cls.shape == (1, channels)
