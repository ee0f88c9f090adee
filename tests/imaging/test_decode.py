"""Every format, depth, mode and orientation comes out as the same upright RGB; every bad file as one sentence."""

import io
import os
import struct
import warnings
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest
import tifffile
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from sparcal.errors import DataError
from sparcal.imaging.decode import MAX_PIXELS, content_hash, open_image

RGB = np.random.default_rng(0).integers(0, 256, (13, 21, 3), dtype=np.uint8)
DEEP = np.random.default_rng(1).integers(0, 65536, (13, 21, 4), dtype=np.uint16)
LOSSLESS = {"PNG": {}, "BMP": {}, "TIFF": {}, "WEBP": {"lossless": True}}
# What an image stored with an orientation looks like upright, in array operations instead of Pillow's.
UPRIGHT = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1),
    6: lambda a: a.swapaxes(0, 1)[:, ::-1],
    7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
    8: lambda a: a.swapaxes(0, 1)[::-1],
}


def to_8_bit(values):
    return np.rint(values / 257).astype(np.uint8)


def encoded(image, kind, **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def tiff(values, **options):
    stream = io.BytesIO()
    tifffile.imwrite(stream, values, **options)
    return stream.getvalue()


def opencv(suffix, values):
    order = {2: ..., 3: np.s_[..., ::-1], 4: np.s_[..., [2, 1, 0, 3]]}
    key = values.ndim if values.ndim == 2 else values.shape[2]
    return cv2.imencode(suffix, np.ascontiguousarray(values[order[key]]))[1].tobytes()


@pytest.mark.parametrize("kind", LOSSLESS)
def test_lossless_formats_keep_every_pixel_whatever_the_extension_says(kind, tmp_path):
    content = encoded(Image.fromarray(RGB), kind, **LOSSLESS[kind])
    path = tmp_path / "photo.jpg"
    path.write_bytes(content)
    for source in (path, str(path), content):
        image = open_image(source)
        assert image.mode == "RGB"
        np.testing.assert_array_equal(np.asarray(image), RGB)


def test_jpeg_is_close_to_the_original():
    smooth = np.asarray(Image.fromarray(RGB).resize((80, 60), Image.Resampling.BICUBIC))
    opened = np.asarray(open_image(encoded(Image.fromarray(smooth), "JPEG", quality=95, subsampling=0))).astype(int)
    assert np.abs(opened - smooth).mean() < 3


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF"])
def test_grey_is_repeated_in_three_channels(kind):
    opened = np.asarray(open_image(encoded(Image.fromarray(RGB[..., 0]), kind)))
    np.testing.assert_array_equal(opened, np.repeat(RGB[..., :1], 3, axis=2))


def test_black_and_white_becomes_0_and_255():
    bits = RGB[..., 0] > 128
    opened = np.asarray(open_image(encoded(Image.fromarray(bits), "PNG")))
    np.testing.assert_array_equal(opened[..., 1], np.where(bits, 255, 0))


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_transparency_is_ignored(kind):
    rgba = np.dstack([RGB, np.arange(21 * 13, dtype=np.uint8).reshape(13, 21)])
    np.testing.assert_array_equal(np.asarray(open_image(encoded(Image.fromarray(rgba), kind))), RGB)
    grey_alpha = Image.fromarray(rgba[..., 2:])
    opened = np.asarray(open_image(encoded(grey_alpha, kind)))
    np.testing.assert_array_equal(opened, np.repeat(RGB[..., 2:], 3, axis=2))


@pytest.mark.parametrize("transparency", [None, 3, bytes([0, 128, 255, 7])])
def test_palettes_are_looked_up(transparency):
    indices = RGB[..., 0] % 4
    colours = np.array([[9, 8, 7], [200, 0, 0], [0, 180, 3], [4, 5, 250]], dtype=np.uint8)
    image = Image.fromarray(indices)
    image.putpalette(colours.tobytes())
    options = {} if transparency is None else {"transparency": transparency}
    np.testing.assert_array_equal(np.asarray(open_image(encoded(image, "PNG", **options))), colours[indices])


def test_cmyk_jpeg_opens():
    content = encoded(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG", quality=95)
    assert np.abs(np.asarray(open_image(content)).astype(int) - [255, 0, 0]).max() < 12


@pytest.mark.parametrize("suffix", [".png", ".tiff"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_16_bit_is_divided_by_257(suffix, channels):
    values = DEEP[..., 0] if channels == 1 else DEEP[..., :channels]
    opened = np.asarray(open_image(opencv(suffix, values)))
    np.testing.assert_array_equal(opened, np.broadcast_to(to_8_bit(DEEP[..., : min(channels, 3)]), (13, 21, 3)))


@pytest.mark.parametrize(
    "options",
    [
        {"photometric": "rgb"},
        {"photometric": "rgb", "byteorder": ">"},
        {"photometric": "rgb", "compression": "zlib", "predictor": True},
        {"photometric": "rgb", "bigtiff": True},
    ],
)
def test_16_bit_colour_tiff_in_every_layout(options):
    values = DEEP[..., :3]
    np.testing.assert_array_equal(np.asarray(open_image(tiff(values, **options))), to_8_bit(values))


def test_tiff_with_separate_planes_is_read_in_8_bit_and_refused_in_16():
    options = {"photometric": "rgb", "planarconfig": "separate"}
    np.testing.assert_array_equal(np.asarray(open_image(tiff(RGB.transpose(2, 0, 1), **options))), RGB)
    with pytest.raises(DataError, match=r"must hold 8-bit or interleaved unsigned 16-bit samples, got others \(TIFF"):
        open_image(tiff(DEEP[..., :3].transpose(2, 0, 1), **options))


def test_16_bit_grey_tiff_honours_byte_order_and_white_is_zero():
    grey = DEEP[..., 0]
    swapped = np.asarray(open_image(tiff(grey, photometric="minisblack", byteorder=">")))
    inverted = np.asarray(open_image(tiff(grey, photometric="miniswhite")))
    np.testing.assert_array_equal(swapped[..., 0], to_8_bit(grey))
    np.testing.assert_array_equal(inverted[..., 0], to_8_bit(65535 - grey))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "WEBP"])
@pytest.mark.parametrize("orientation", UPRIGHT)
def test_exif_orientation_is_applied_once(kind, orientation):
    blocks = np.kron(np.array([[[250, 0, 0], [0, 250, 0], [0, 0, 250]], [[0, 0, 0], [120] * 3, [250] * 3]]),
                     np.ones((16, 16, 1))).astype(np.uint8)  # fmt: skip
    exif = Image.Exif()
    exif[274] = orientation
    options = {"JPEG": {"quality": 100, "subsampling": 0}}.get(kind, LOSSLESS.get(kind, {}))
    opened = open_image(encoded(Image.fromarray(blocks), kind, exif=exif, **options))
    expected = UPRIGHT[orientation](blocks)
    assert np.asarray(opened).shape == expected.shape
    assert np.abs(np.asarray(opened).astype(int) - expected).max() <= 4
    np.testing.assert_array_equal(np.asarray(open_image(opened)), np.asarray(opened))


@pytest.mark.parametrize("orientation", UPRIGHT)
@pytest.mark.parametrize("channels", [1, 3])
def test_exif_orientation_of_16_bit_files(orientation, channels):
    values = DEEP[..., 0] if channels == 1 else DEEP[..., :3]
    expected = UPRIGHT[orientation](np.broadcast_to(to_8_bit(DEEP[..., :channels]), (13, 21, 3)))
    photometric = "minisblack" if channels == 1 else "rgb"
    from_tiff = open_image(tiff(values, photometric=photometric, extratags=[(274, "H", 1, orientation, True)]))
    np.testing.assert_array_equal(np.asarray(from_tiff), expected)
    exif = Image.Exif()
    exif[274] = orientation
    png = opencv(".png", values)
    block = exif.tobytes()[6:]  # without the JPEG prefix
    chunk = struct.pack(">I", len(block)) + b"eXIf" + block + struct.pack(">I", zlib.crc32(b"eXIf" + block))
    np.testing.assert_array_equal(np.asarray(open_image(png[:33] + chunk + png[33:])), expected)


def test_pillow_images_are_not_changed():
    exif = Image.Exif()
    exif[274] = 6
    given_image = Image.open(io.BytesIO(encoded(Image.fromarray(RGB), "PNG", exif=exif)))
    assert open_image(given_image).size == (13, 21)
    assert given_image.size == (21, 13)
    assert given_image.getexif()[274] == 6
    deep = Image.fromarray(DEEP[..., 0])
    np.testing.assert_array_equal(np.asarray(open_image(deep))[..., 2], to_8_bit(DEEP[..., 0]))


def test_arrays():
    np.testing.assert_array_equal(np.asarray(open_image(RGB)), RGB)
    np.testing.assert_array_equal(np.asarray(open_image(RGB[::-1, :, ::-1])), RGB[::-1, :, ::-1])
    np.testing.assert_array_equal(np.asarray(open_image(DEEP)), to_8_bit(DEEP[..., :3]))
    for grey in (RGB[..., 0], RGB[..., :1]):
        np.testing.assert_array_equal(np.asarray(open_image(grey)), np.repeat(RGB[..., :1], 3, axis=2))


def test_every_16_bit_value_is_rounded_to_the_nearest():
    values = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    np.testing.assert_array_equal(np.asarray(open_image(values))[..., 0], to_8_bit(values))


@pytest.mark.parametrize("kind", [*LOSSLESS, "JPEG"])
@pytest.mark.parametrize("kept", [0.3, 0.6, 0.95])
def test_truncated_files_are_reported_by_name(kind, kept, tmp_path):
    content = encoded(Image.fromarray(np.kron(RGB, np.ones((4, 4, 1), dtype=np.uint8))), kind)
    path = tmp_path / "part 7.png"
    path.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(DataError, match=r"part 7\.png must be a readable .* image, got .*: export it again"):
        open_image(path)


def test_truncated_16_bit_file_is_reported():
    content = opencv(".png", DEEP[..., :3])
    with pytest.raises(DataError, match="damaged or truncated"):
        open_image(content[: len(content) // 2])


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "got an empty file: copy or export it again"),
        (b"part,verdict\n7,good\n", "got a file of another kind or with a damaged start"),
        (encoded(Image.fromarray(RGB), "GIF"), "got a file of another kind"),
        (
            tiff(DEEP[..., 0].astype(np.float32)),
            "must hold 8-bit or interleaved unsigned 16-bit samples, got .* mode F",
        ),
        (tiff(DEEP[..., 0].astype(np.int16)), "must hold 8-bit or interleaved unsigned 16-bit samples"),
        (tiff(DEEP[..., 0].astype(np.uint32)), "must hold 8-bit or interleaved unsigned 16-bit samples"),
    ],
)
def test_unusable_content_is_named_in_one_sentence(content, sentence, tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(content)
    with pytest.raises(DataError, match=sentence) as caught:
        open_image(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("warnings_as", ["error", "ignore"])  # Pillow warns of the second and refuses the third
@pytest.mark.parametrize(("width", "height"), [(8900, 10020), (12000, 9000), (60000, 60000)])
def test_decompression_bombs_are_refused_from_the_header(width, height, warnings_as, tmp_path):
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b"")]
    body = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
    path = tmp_path / "bomb.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)
    sentence = rf"bomb\.png must have at most {MAX_PIXELS} pixels, got .*: cut or shrink it"
    with warnings.catch_warnings(action=warnings_as), pytest.raises(DataError, match=sentence):
        open_image(path)


def test_paths_that_are_no_files(tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.png must be .*, got no file of that name: check the path"):
        open_image(tmp_path / "nowhere.png")
    with pytest.raises(DataError, match="got something that is no regular file"):
        open_image(tmp_path)
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(DataError, match="got something that is no regular file"):
        open_image(str(tmp_path / "pipe.png"))


def test_what_is_no_regular_file_has_no_content_to_be_known_by(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "endless.png").symlink_to("/dev/zero")
    for name in ("pipe.png", "endless.png"):
        with pytest.raises(OSError, match="something that is no regular file"):
            content_hash(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        content_hash(tmp_path / "nowhere.png")


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (RGB.astype(np.float32), "must hold uint8 or uint16 pixels, got float32"),
        (RGB.astype(bool), "must hold uint8 or uint16 pixels, got bool"),
        (RGB[None], r"must be \(H, W\), .* got \(1, 13, 21, 3\)"),
        (RGB[..., :2], r"got \(13, 21, 2\)"),
        (RGB[:0], r"got \(0, 21, 3\)"),
    ],
)
def test_unusable_arrays(array, sentence):
    with pytest.raises(DataError, match=sentence):
        open_image(array)


def test_unusable_pillow_images():
    with pytest.raises(
        DataError, match=r"the given image must hold 8-bit or interleaved unsigned 16-bit samples, got .* mode F"
    ):
        open_image(Image.fromarray(RGB[..., 0].astype(np.float32)))


SEEDS = [
    *(encoded(Image.fromarray(RGB), kind) for kind in (*LOSSLESS, "JPEG")),
    opencv(".png", DEEP[..., :3]),
    tiff(DEEP[..., :3], photometric="rgb"),
]


@given(st.sampled_from(SEEDS), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=6))
def test_damaged_bytes_give_an_image_or_a_data_error_and_nothing_else(content, damage):
    damaged = bytearray(content)
    for where, value in damage:
        damaged[int(where * (len(damaged) - 1))] = value
    try:
        outcome = open_image(bytes(damaged)).mode
    except DataError as error:
        outcome = str(error)
    assert outcome == "RGB" or ("the given file content must" in outcome and "\n" not in outcome)


def test_unreadable_file_is_reported(tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    path.write_bytes(encoded(Image.fromarray(RGB), "PNG"))

    def refuse(*_args, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match=r"a\.png must be .*Permission denied: check its permissions"):
        open_image(path)


def test_too_little_memory_is_no_damaged_file(tmp_path, monkeypatch):
    Image.fromarray(RGB).save(tmp_path / "a.png")

    def refuse(*_args):
        raise MemoryError

    monkeypatch.setattr("sparcal.imaging.decode._to_upright_rgb", refuse)
    with pytest.raises(DataError, match=r"a.png must fit into the memory that is free, got none") as caught:
        open_image(tmp_path / "a.png")
    assert "damaged" not in str(caught.value)
