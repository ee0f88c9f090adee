"""One image from a file, from bytes or from memory, as 8-bit RGB: opened by content, whatever its name says.

Decided here, because formats leave it open: transparency is ignored, as the detectors' authors do (the colours
below it are kept); 16-bit pixels become 8-bit ones by dividing by 257, so that full scale stays full scale; of a
file with several pages or frames the first counts; EXIF orientation is applied.
"""

from __future__ import annotations

import errno
import hashlib
import io
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from PIL.PngImagePlugin import PngImageFile
from PIL.TiffImagePlugin import TiffImageFile

from sparcal.errors import DataError, MissingExtraError
from sparcal.files.hashing import file_digest
from sparcal.settings import in_short

FORMATS = ("PNG", "JPEG", "BMP", "TIFF", "WEBP")
MAX_PIXELS = 89_000_000  # just below the size at which Pillow itself starts to warn of decompression bombs

ImageSource = Path | str | bytes | NDArray[Any] | Image.Image

_EXPECTED = "must be a readable PNG, JPEG, BMP, TIFF or WebP image"
_UPRIGHT = {  # EXIF orientation -> what makes the image upright
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_EXIF_ORIENTATION, _TIFF_BITS, _TIFF_PHOTOMETRIC, _TIFF_PLANAR, _TIFF_SAMPLE_FORMAT = 274, 258, 262, 284, 339
_WHITE_IS_ZERO = 0
_MODES_OF_16_BIT_FILES = frozenset({"I;16", "I;16B", "L", "LA", "RGB", "RGBA", "RGBX"})


def open_image(source: ImageSource) -> Image.Image:
    """The image upright and in 8-bit RGB, wherever it comes from.

    Args:
        source: a path, the bytes of a file, a (H, W), (H, W, 1), (H, W, 3) RGB or (H, W, 4) RGBA array of uint8
            or uint16, or a Pillow image.
    """
    if isinstance(source, Image.Image):
        return _guarded(source, "the given image", None)
    if isinstance(source, np.ndarray):
        return _from_array(source, "the given array")
    if isinstance(source, bytes):
        return _decode(io.BytesIO(source), "the given file content")
    if not isinstance(source, Path | str):
        raise no_image(source)
    path = Path(source)
    if not path.is_file():  # also keeps pipes and devices, which could block for ever, away from open()
        got = "something that is no regular file" if path.exists() else "no file of that name"
        raise DataError(f"{path} {_EXPECTED}, got {got}: check the path.")
    try:
        with path.open("rb") as stream:
            return _decode(stream, str(path))
    except OSError as error:
        raise DataError(f"{path} {_EXPECTED}, got {_one_line(error)}: check its permissions.") from error


def no_image(value: object) -> DataError:
    """What is said of a thing that is no image; a torch tensor is told how it becomes one."""
    tensor = hasattr(value, "permute")
    hint = "pass (255 * x).byte().permute(1, 2, 0).numpy() of each" if tensor else "see sparcal.encode"
    return DataError(
        "An image must be a path, the bytes of a file, an array (H, W, 3) of uint8 or uint16, or a Pillow image, got "
        f"{in_short(value)}: {hint}."
    )


def _decode(stream: IO[bytes], name: str) -> Image.Image:
    if not stream.read(1):
        raise DataError(f"{name} {_EXPECTED}, got an empty file: copy or export it again.")
    stream.seek(0)
    try:
        image = Image.open(stream, formats=FORMATS)
    except UnidentifiedImageError as error:
        raise DataError(
            f"{name} {_EXPECTED}, got a file of another kind or with a damaged start: "
            "export it again in one of these formats."
        ) from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DataError(
            f"{name} must have at most {MAX_PIXELS} pixels, got {_one_line(error)}: cut or shrink it."
        ) from error
    except MemoryError as error:
        raise _too_large(name, error) from error
    except Exception as error:
        raise _damaged(name, error) from error
    if image.width * image.height > MAX_PIXELS:
        raise DataError(
            f"{name} must have at most {MAX_PIXELS} pixels, got {image.width} x {image.height}: cut or shrink it."
        )
    return _guarded(image, name, stream)


def _guarded(image: Image.Image, name: str, stream: IO[bytes] | None) -> Image.Image:
    try:
        return _to_upright_rgb(image, name, stream)
    except (DataError, MissingExtraError):
        raise
    except MemoryError as error:
        raise _too_large(name, error) from error
    except Exception as error:  # a hostile file can make a decoder raise anything
        raise _damaged(name, error) from error


def _to_upright_rgb(image: Image.Image, name: str, stream: IO[bytes] | None) -> Image.Image:
    bits = _bits_of_mode(image) if stream is None else _bits_of_file(image)
    image.load()  # finds truncation, which OpenCV would pass over
    if bits == 16 and stream is not None and image.mode in _MODES_OF_16_BIT_FILES:
        rgb = _from_array(_decode_16_bit(image, stream), name)
    elif bits == 16 and stream is None:
        rgb = _from_array(np.asarray(image).astype(np.uint16), name)
    elif bits > 8:
        raise DataError(
            f"{name} must hold 8-bit or interleaved unsigned 16-bit samples, got others ({image.format or 'in memory'}, "
            f"mode {image.mode}): convert it with one scale for all images."
        )
    elif image.mode == "P":  # by way of RGBA, because Pillow warns when a transparent palette goes to RGB directly
        rgb = image.convert("RGBA").convert("RGB")
    else:
        rgb = image if image.mode == "RGB" else image.convert("RGB")
    # After load(): Pillow and OpenCV both turn TIFF files while they decode, and Pillow then drops the tag.
    orientation = image.getexif().get(_EXIF_ORIENTATION, 1)
    upright = rgb.transpose(_UPRIGHT[orientation]) if orientation in _UPRIGHT else rgb
    if upright.info:  # holds the EXIF block: whoever reads it again would turn the image again
        upright = upright.copy()
        upright.info = {}
    return upright


def _bits_of_mode(image: Image.Image) -> int:
    return 16 if image.mode.startswith("I;16") else 32 if image.mode in {"I", "F"} else 8


def _bits_of_file(image: Image.Image) -> int:
    """Bits per sample as stored; 8 for fewer, 32 for what nothing here can read."""
    if isinstance(image, TiffImageFile):
        bits = max(8, *image.tag_v2.get(_TIFF_BITS, (1,)))
        unsigned = set(image.tag_v2.get(_TIFF_SAMPLE_FORMAT, (1,))) == {1}
        # Pillow and OpenCV both read 16-bit samples in separate planes as noise, without complaint.
        planar = bits > 8 and image.tag_v2.get(_TIFF_PLANAR) == 2 and not image.mode.startswith("I;16")
        return bits if unsigned and not planar else 32
    if isinstance(image, PngImageFile) and any(";16" in str(tile.args) for tile in image.tile):
        return 16
    return _bits_of_mode(image)


def _decode_16_bit(image: Image.Image, stream: IO[bytes]) -> NDArray[Any]:
    """The pixels of a 16-bit file by OpenCV, because Pillow keeps only the upper byte of 16-bit colour."""
    try:
        import cv2
    except ImportError as error:  # an exported model runs without it
        raise MissingExtraError(
            "A 16-bit image needs OpenCV, which is not installed: run pip install opencv-python-headless."
        ) from error
    stream.seek(0)
    pixels = cv2.imdecode(np.frombuffer(stream.read(), dtype=np.uint8), cv2.IMREAD_UNCHANGED)
    if pixels is None:
        raise OSError("its 16-bit pixels cannot be decoded")
    if isinstance(image, TiffImageFile) and image.tag_v2.get(_TIFF_PHOTOMETRIC) == _WHITE_IS_ZERO:
        pixels = 65535 - pixels
    return pixels[..., [2, 1, 0]] if pixels.ndim == 3 and pixels.shape[2] >= 3 else pixels


def _from_array(pixels: NDArray[Any], name: str) -> Image.Image:
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    if pixels.ndim != 3 or pixels.shape[2] not in {1, 3, 4} or 0 in pixels.shape:
        raise DataError(f"{name} must be (H, W), (H, W, 1), (H, W, 3) or (H, W, 4), got {pixels.shape}.")
    if pixels.dtype not in (np.uint8, np.uint16):
        raise DataError(
            f"{name} must hold uint8 or uint16 pixels, got {pixels.dtype}: convert it with one scale for all images."
        )
    if pixels.dtype == np.uint16:
        pixels = (pixels.astype(np.uint32) + 128) // 257  # exact rounding: 257 is odd, there are no ties
    rgb = np.broadcast_to(pixels[..., :3], (*pixels.shape[:2], 3))
    return Image.fromarray(np.ascontiguousarray(rgb, dtype=np.uint8))


def _too_large(name: str, error: Exception) -> DataError:
    """The file may be sound: it is the machine that has too little memory."""
    return DataError(
        f"{name} must fit into the memory that is free, got none to decode it ({_one_line(error)}): close other programs, or "
        "use a machine with more memory."
    )


def _damaged(name: str, error: Exception) -> DataError:
    return DataError(f"{name} {_EXPECTED}, got a damaged or truncated file ({_one_line(error)}): export it again.")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def content_hash(source: ImageSource) -> str:
    """SHA-256 of a file's bytes, or of the pixels of an image in memory, in hexadecimal; OSError of what is no file."""
    if isinstance(source, Path | str):
        path = Path(source)
        if path.exists() and not path.is_file():  # a pipe may never begin, a device may never end
            raise OSError(errno.EINVAL, "something that is no regular file", str(path))
        return file_digest(path)
    if isinstance(source, bytes):
        return hashlib.sha256(source).hexdigest()
    pixels = np.ascontiguousarray(source)
    return hashlib.sha256(f"{pixels.dtype} {pixels.shape}".encode() + pixels.tobytes()).hexdigest()
