"""How much disk and memory a station and its lots take, looked at before the work and not half way through it."""

from __future__ import annotations

from pathlib import Path

from sparcal.files.full_disk import require_free_room
from sparcal.memory import require_memory
from sparcal.types import Detector, Grids

WORKING_COPIES = 3  # of the features in float32: as loaded, corrected, and a fold
ON_DISK, IN_MEMORY = 2, 4  # bytes of a value: kept in half precision, worked with in float32
PLANTED_COPIES = 2  # of the features of planted defects: one by one, and joined
ANOTHER_DISK = "choose a folder on a larger disk"


def require_working_memory(grids: Grids, images: int) -> None:
    """Raise DataError where there is not enough memory to work with the features of all images."""
    require_memory(
        IN_MEMORY * WORKING_COPIES * values_of(grids) * images,
        f"A station of {images} images",
        "fit on fewer images, or on a machine with more memory",
    )


def require_memory_to_plant(grids: Grids, n: int) -> None:
    """Raise DataError where the features of n plain planted defects, and of the faint ones beside them, do not fit."""
    require_memory(
        IN_MEMORY * PLANTED_COPIES * values_of(grids) * (n + n // 2),
        f"Planting {n} defects",
        "plant fewer (--n, n=), under another seed each time",
    )


def require_space_to_fit(folder: Path, grids: Grids, detector: Detector, *, new: int, images: int) -> None:
    """Raise where the features of all images do not fit into memory, or they and the reference not on the disk.

    Args:
        new: images whose features are still to be written.
        images: of the station, those included.
    """
    require_working_memory(grids, images)
    reference = reference_bytes(detector, grids, images)
    what = f"Keeping the features of {new} images" + (f" and a reference of {images}" if reference else "")
    require_free_room(folder, ON_DISK * values_of(grids) * new + reference, what, ANOTHER_DISK)


def require_space_for_lot(folder: Path, grids: Grids, *, normals: int, reference: Path) -> None:
    """Raise FullDiskError where a lot does not fit on the disk: its correction, and a reference like the station's.

    Args:
        reference: file of the station's own.
    """
    size = reference.stat().st_size if reference.is_file() else 0
    needed = size + IN_MEMORY * values_of(grids) * normals  # mean and k - 1 directions per cell
    require_free_room(folder, needed, "A lot", "move the station to a larger disk")


def reference_bytes(detector: Detector, grids: Grids, images: int) -> int:
    """What a detector will keep of so many images, by its own count; 0 for one that does not count."""
    count = getattr(detector, "reference_bytes", None)
    return 0 if count is None else int(count(grids, images))


def values_of(grids: Grids) -> int:
    """Numbers in the features of one image."""
    return sum(h * w * d for h, w, d in grids)
