"""A correction of your own beside sparcal's: the same detector, the same rendered parts under five other lamps.

    python own_correction.py

One sees image AUROC of a lot without a correction, with one of a few lines that takes out brightness alone, and with
recentred SPARC. docs/how-to/bring-your-own.md says what a correction must keep to.
"""

from dataclasses import dataclass, field

from sparcal import SPARC, encode, load_host, score_lot
from sparcal.bench.metrics import auroc
from sparcal.corrections import Identity
from sparcal.rendering.parts import make_demo


@dataclass
class BrightnessOnly:
    """Takes the lot's mean level out of each channel, the same in all cells."""

    on: str = "test"  # the reference side stays as it is
    offset_: object = field(default=None, init=False, repr=False)

    def fit(self, calibration, reference=None):
        self.offset_ = calibration.levels[0].mean((0, 1, 2)) - reference.levels[0].mean((0, 1, 2))
        return self

    def apply(self, features):
        return features.map(lambda level: level - self.offset_)

    apply_reference = apply


parts = make_demo(0, train=24, good=24, bad=12, shift="lights", size=128)
encoder, detector = load_host("patchcore", encoder="bundled")
groups = parts.train, parts.lot_good[:8], parts.lot_good[8:] + parts.lot_bad
train, normals, lot = (encode(encoder, [part.image for part in group]).features for group in groups)
for correction in (Identity(), BrightnessOnly(), SPARC(recentre="cell")):
    scores = score_lot(detector, lot, reference=train, calibration=normals, correction=correction)
    print(f"{type(correction).__name__}: image AUROC {auroc([0] * 16 + [1] * 12, scores.image.numpy()):.2f}")
