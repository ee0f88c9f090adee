"""The feature cache: once per image and encoder, whole or not at all, within its limit."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import time
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from PIL import Image

from sparcal.bench.run.cache import FeatureCache
from sparcal.errors import DataError, FullDiskError
from sparcal.imaging.preprocess import Preprocess
from sparcal.types import Features


@dataclass
class Squares:
    """An encoder of 8 x 8 block means that counts how often it is asked."""

    id: str = "squares"
    cell_pixels: int = 8
    with_cls: bool = False
    preprocess: Preprocess = field(default_factory=lambda: Preprocess(size=32, resize="square"))
    calls: int = 0

    def __call__(self, pixels):
        self.calls += len(pixels)
        grid = torch.nn.functional.avg_pool2d(pixels, 8).permute(0, 2, 3, 1)
        return Features((grid, grid[..., :2] * 2), grid.mean(dim=(1, 2)) if self.with_cls else None)


def write_images(folder, count, *, size=(40, 32), seed=0):
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    paths = [folder / f"{i:03}.png" for i in range(count)]
    for path in paths:
        Image.fromarray(random.integers(0, 255, (*size, 3), dtype=np.uint8)).save(path)
    return paths


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a.levels, b.levels, strict=True))


def test_an_image_is_encoded_once(tmp_path):
    images, encoder = write_images(tmp_path / "images", 5), Squares(with_cls=True)
    cache = FeatureCache(tmp_path / "cache")
    first = cache.features(encoder, images)
    again = FeatureCache(tmp_path / "cache").features(encoder, images[::-1])
    assert (encoder.calls, first.extracted, again.extracted) == (5, 5, 0)
    assert same(first.features[[4, 3, 2, 1, 0]], again.features)
    assert torch.equal(first.features.cls, again.features.cls.flip(0))
    assert first.geometries[0].native == (40, 32)
    assert first.geometries == again.geometries[::-1]


def test_features_are_those_of_the_encoder(tmp_path):
    images, encoder = write_images(tmp_path / "images", 3), Squares()
    found = FeatureCache(tmp_path / "cache").features(encoder, images).features
    for i, image in enumerate(images):
        pixels, _ = encoder.preprocess(Image.open(image))
        assert same(found[i], encoder(pixels[None]))


def test_entries_follow_content_not_names(tmp_path):
    images, encoder = write_images(tmp_path / "images", 2), Squares()
    copy = tmp_path / "copy.png"
    shutil.copy(images[0], copy)
    cache = FeatureCache(tmp_path / "cache")
    assert cache.features(encoder, [*images, copy]).extracted == 2
    shutil.copy(images[1], copy)  # the same name, other bytes
    os.utime(copy, ns=(1, 1))
    assert same(cache.features(encoder, [copy]).features, cache.features(encoder, [images[1]]).features)
    assert cache.features(Squares(id="other"), images).extracted == 2


def test_float16_takes_half_the_room_and_says_so(tmp_path):
    images = write_images(tmp_path / "images", 1)
    full = FeatureCache(tmp_path / "cache").features(Squares(), images).features
    half = FeatureCache(tmp_path / "cache", precision="float16").features(Squares(), images).features
    assert half.levels[0].dtype == torch.float32
    assert torch.equal(half.levels[0], full.levels[0].half().float())
    assert len({path.parent.parent.name for path in (tmp_path / "cache").rglob("*.safetensors")}) == 2


def test_features_that_are_not_kept_leave_nothing(tmp_path):
    images, encoder = write_images(tmp_path / "images", 2), Squares()
    cache = FeatureCache(tmp_path / "cache")
    assert cache.features(encoder, images, keep=False).extracted == 2
    assert not (tmp_path / "cache").exists()


def size(folder):
    return sum(path.stat().st_size for path in folder.rglob("*.safetensors"))


def test_the_folder_stays_within_its_limit_and_keeps_what_was_used_last(tmp_path):
    images, encoder = write_images(tmp_path / "images", 12), Squares()
    one = FeatureCache(tmp_path / "trial")
    one.features(encoder, images[:1])
    limit = int(6.5 * size(tmp_path / "trial"))
    cache = FeatureCache(tmp_path / "cache", limit=limit)
    for number, image in enumerate(images):
        cache.features(encoder, [image])
        for path in (tmp_path / "cache").rglob("*.safetensors"):  # time stamps as if a second passed between calls
            os.utime(path, (path.stat().st_atime - 10, path.stat().st_mtime - 10))
        assert size(tmp_path / "cache") <= limit, number
    encoder.calls = 0
    cache.features(encoder, images[-4:])
    assert encoder.calls == 0
    assert cache.features(encoder, images[:2]).extracted == 2


def test_a_limit_below_what_one_call_needs_still_gives_right_features(tmp_path):
    images, encoder = write_images(tmp_path / "images", 6), Squares()
    right = FeatureCache(tmp_path / "wide").features(encoder, images).features
    cache = FeatureCache(tmp_path / "cache", limit=2000)
    assert same(cache.features(encoder, images).features, right)
    assert size(tmp_path / "cache") <= 2000


def test_too_little_room_is_said_at_the_first_image_and_a_limit_helps(tmp_path, monkeypatch):
    images, encoder = write_images(tmp_path / "images", 6), Squares()
    monkeypatch.setattr("sparcal.files.full_disk.shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    with pytest.raises(
        FullDiskError,
        match=r"Caching the features of 6 images needs about 1.9 kB at .*cache, got 1.0 kB free: make room, or give another "
        r"folder \(--cache\), half precision \(--precision float16\) or a limit\.$",
    ):  # 4 x 4 cells of 3 and 2 channels
        FeatureCache(tmp_path / "cache").features(encoder, images)
    assert encoder.calls <= 3, "the next images may be on their way"
    assert not list((tmp_path / "cache").rglob("*.safetensors"))
    assert FeatureCache(tmp_path / "cache", precision="float16").features(encoder, images).extracted == 6
    assert FeatureCache(tmp_path / "less", limit=900).features(encoder, images).extracted >= 6


def test_leftovers_of_a_killed_writer_are_ignored_and_removed_later(tmp_path):
    images, encoder = write_images(tmp_path / "images", 1), Squares()
    cache = FeatureCache(tmp_path / "cache", limit=10**6)
    cache.features(encoder, images)
    entry = next((tmp_path / "cache").rglob("*.safetensors"))
    fresh, stale = entry.with_name(".a.tmp"), entry.with_name(".b.tmp")
    for path in (fresh, stale):
        path.write_bytes(entry.read_bytes()[:100])
    os.utime(stale, (time.time() - 7200,) * 2)
    cache.trim()
    assert fresh.exists()
    assert not stale.exists()
    assert cache.features(encoder, images).extracted == 0


def test_what_others_keep_in_its_folder_is_never_removed(tmp_path):
    images, encoder = write_images(tmp_path / "cache" / "rendered-0" / "none", 6), Squares()
    others = [tmp_path / "cache" / name for name in ("notes.txt", "results/main/units/a.parquet", "features/mine.csv")]
    for path in others:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
        os.utime(path, (0, 0))
    FeatureCache(tmp_path / "cache", limit=1).features(encoder, images)
    assert all(path.exists() for path in (*images, *others))
    assert not list((tmp_path / "cache").rglob("*.safetensors")), "what is its own goes, since nothing fits"


def test_a_damaged_entry_is_made_again(tmp_path):
    images, encoder = write_images(tmp_path / "images", 1), Squares()
    cache = FeatureCache(tmp_path / "cache")
    right = cache.features(encoder, images).features.map(torch.clone)
    entry = next((tmp_path / "cache").rglob("*.safetensors"))
    entry.write_bytes(entry.read_bytes()[:50])
    found = cache.features(encoder, images)
    assert found.extracted == 1
    assert same(found.features, right)


def fill(root, images, ready, answers):
    encoder = Squares()
    ready.wait()
    FeatureCache(root).features(encoder, images)
    answers.put(encoder.calls)


@pytest.mark.slow
def test_two_writers_at_once_agree_and_share_the_work(tmp_path, record_property):
    images = write_images(tmp_path / "images", 120)
    spawn = multiprocessing.get_context("spawn")
    ready, answers = spawn.Barrier(2), spawn.Queue()
    writers = [spawn.Process(target=fill, args=(tmp_path / "cache", images, ready, answers)) for _ in range(2)]
    for writer in writers:
        writer.start()
    calls = [answers.get(timeout=120) for _ in writers]
    record_property("tried", len(writers))
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert 120 <= sum(calls) < 180, "each does a part; only groups that both begin at once are done twice"
    assert same(
        FeatureCache(tmp_path / "cache").features(Squares(), images).features,
        FeatureCache(tmp_path / "alone").features(Squares(), images).features,
    )
    assert not list((tmp_path / "cache").rglob("*.tmp"))


def test_results_are_remembered_by_their_words(tmp_path):
    asked = []

    def compute():
        asked.append(1)
        return {"x": torch.arange(3.0)}

    for _ in range(2):
        assert FeatureCache(tmp_path).remember(("a", "b"), compute)["x"].tolist() == [0, 1, 2]
    FeatureCache(tmp_path).remember(("ab",), compute)
    assert len(asked) == 2


def test_images_of_different_grids_are_refused(tmp_path):
    images = [*write_images(tmp_path / "a", 1, size=(32, 32)), *write_images(tmp_path / "b", 1, size=(32, 64))]
    encoder = Squares(preprocess=Preprocess(size=32, resize="short"))
    cache = FeatureCache(tmp_path / "cache")
    with pytest.raises(DataError, match="use images of one aspect ratio"):
        cache.features(encoder, images)
    cache.features(encoder, images[:1])
    cache.features(encoder, images[1:])
    with pytest.raises(DataError, match="must give one grid, got 4x4x3 .* 4x8x3 .*resize=square"):
        cache.features(encoder, images)


def test_a_damaged_image_is_named(tmp_path):
    images = write_images(tmp_path / "images", 1)
    images[0].write_bytes(b"not an image")
    with pytest.raises(DataError, match="000.png"):
        FeatureCache(tmp_path / "cache").features(Squares(), images)
    with pytest.raises(DataError, match="nowhere.png must be a readable image file, got No such file"):
        FeatureCache(tmp_path / "cache").features(Squares(), [tmp_path / "nowhere.png"])


@pytest.mark.parametrize(
    ("options", "message"),
    [({"precision": "float8"}, "stores float32 or float16, got 'float8'"), ({"limit": 0}, "must be above 0 bytes")],
)
def test_wrong_settings_are_refused(tmp_path, options, message):
    with pytest.raises(DataError, match=message):
        FeatureCache(tmp_path, **options)
