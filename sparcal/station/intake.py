"""Which images a station is fitted on: each is used, or left out with a sentence why, and never too many in silence.

An image is left out where it cannot be read, where another one has the same content, or where it has another size or
colour than nearly all of the others, as a camera's images have not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sparcal.errors import DataError
from sparcal.imaging.camera_format import MANY_FORMATS, camera_in_words
from sparcal.imaging.decode import ImageSource
from sparcal.imaging.encode import EncodedImage, KnownImage, stranger
from sparcal.imaging.read import Failure
from sparcal.progress import Progress
from sparcal.settings import switch
from sparcal.station.features import SHARD, FeatureStore
from sparcal.station.space import require_space_to_fit
from sparcal.types import Detector, Grids

FEWEST_IMAGES = 2
LEFT_OUT_LIMIT = 0.05  # of the images given; more than that is no accident
USUAL_SHARE = 0.8  # of the images that have one size and colour; then the others are odd
NAMED = 5  # left-out images that a refusal lists


@dataclass(frozen=True)
class Intake:
    """Training images that are in the store, and those that were not taken.

    Args:
        images: name and SHA-256 of each.
        left_out: name of each, and one sentence why.
        sources: where the images of this call are, by SHA-256.
        repeated: how many of those left out the station has already, which is nothing to worry about.
    """

    images: tuple[tuple[str, str], ...]
    left_out: tuple[tuple[str, str], ...]
    sources: Mapping[str, ImageSource]
    repeated: int = 0

    def require_enough(self, given: int, *, insist: bool) -> None:
        """Raise DataError where too few images are left, or too many of those given were left out.

        Args:
            given: images that this call was to take in.
            insist: whether any number may be left out.
        """
        switch(insist, "insist")
        reasons = " ".join(reason for _, reason in self.left_out[:NAMED])
        more = f" And {len(self.left_out) - NAMED} more." if len(self.left_out) > NAMED else ""
        if len(self.images) < FEWEST_IMAGES:
            end = f", the first because: {reasons}{more}" if reasons else ": show it more good parts."
            raise DataError(
                f"A station needs at least {FEWEST_IMAGES} usable images of good parts, got {len(self.images)} and "
                f"{len(self.left_out)} that were left out{end}"
            )
        unusable = len(self.left_out) - self.repeated
        if unusable > LEFT_OUT_LIMIT * given and not insist:
            raise DataError(
                f"A station is fitted where at most {LEFT_OUT_LIMIT:.0%} of the images are left out, got "
                f"{unusable} of {given}: take them away, or insist (--insist, insist=True). {reasons}{more}"
            )


def take_in(
    store: FeatureStore,
    encoded: Iterable[EncodedImage | KnownImage | Failure],
    sources: Sequence[ImageSource],
    *,
    detector: Detector,
    before: Sequence[tuple[str, str]] = (),
    progress: Progress | None = None,
) -> Intake:
    """Keep what the store does not hold; what it holds from work that was cut short is taken from there.

    Args:
        encoded: every source in order, see `sparcal.imaging.encode.encode_each`.
        before: name and hash of images that the station has already.
    """
    store.refresh()
    taken = {digest: name for name, digest in before}
    known, repeated, looked = frozenset(taken), 0, False
    images, left_out = list(before), []
    grids: Grids | None = store.grids
    waiting: list[EncodedImage] = []
    at: dict[str, ImageSource] = {}
    for number, item in enumerate(encoded, start=1):
        name = str(item.path)
        reason = item.reason if isinstance(item, Failure) else None
        if isinstance(item, EncodedImage):
            grids = grids or item.features.grids
            if not looked:  # at the first image that is encoded, when it is known what one takes
                left, looked = len(sources) - number + 1, True
                require_space_to_fit(store.folder, grids, detector, new=left, images=len(images) + left)
            reason = stranger(item, grids, ())
        if isinstance(item, EncodedImage | KnownImage) and item.sha256 in taken:
            reason = f"{name} has the same content as {taken[item.sha256]}: one of them is enough."
            repeated += item.sha256 in known
        if reason is not None:
            left_out.append((name, reason))
        elif not isinstance(item, Failure):
            taken[item.sha256] = name
            images.append((name, item.sha256))
            at[item.sha256] = sources[number - 1]
        if isinstance(item, EncodedImage) and reason is None:
            waiting.append(item)
        if len(waiting) == SHARD:
            store.add(waiting)
            waiting = []
        if progress is not None:
            progress(number, len(sources))
    if waiting:
        store.add(waiting)
    return _without_odd_formats(store, Intake(tuple(images), tuple(left_out), at, repeated), known=len(before))


def _without_odd_formats(store: FeatureStore, intake: Intake, *, known: int) -> Intake:
    """The same without new images of another size or colour than nearly all have.

    Args:
        known: images, the first ones, that the station has already; these stay.
    """
    formats = [store.note(digest).kind for _, digest in intake.images]
    counts = Counter(formats)
    usual = {one for one, count in counts.items() if count >= USUAL_SHARE * len(formats)} | set(formats[:known])
    if not usual or len(usual) > MANY_FORMATS:
        return intake
    kept, odd = [], []
    expected = " or ".join(camera_in_words(one) for one in sorted(usual))
    for number, ((name, digest), one) in enumerate(zip(intake.images, formats, strict=True)):
        if number < known or one in usual:
            kept.append((name, digest))
            continue
        odd.append(
            (
                name,
                f"{name} must have {expected} like {sum(counts[u] for u in usual)} of {len(formats)} images, got "
                f"{camera_in_words(one)}: check that it is from the same camera.",
            )
        )
    at = {digest: intake.sources[digest] for _, digest in kept if digest in intake.sources}
    return Intake(tuple(kept), (*intake.left_out, *odd), at, intake.repeated)
