"""Lot calibration for features of your own: NumPy arrays in, scores out, no images, no station.

    python calibrate_features.py

One sees how well anomalous images are told from good ones: a lot that drifts along three directions of its own in
every cell drowns the anomalies, until SPARC has taken these directions out.
"""

import numpy as np

from sparcal import SPARC, Features, score_lot
from sparcal.bench.metrics import auroc
from sparcal.corrections import Identity
from sparcal.detectors import PatchCore

H, W, D = 12, 12, 48  # grid and channels of your encoder: n images are an array (n, H, W, D)


def main() -> None:
    """Make features in the place of yours, score the lot without and with calibration."""
    random = np.random.default_rng(0)
    usual, drift = random.normal(size=(H, W, D)), random.normal(size=(3, H, W, D))

    def images(n: int, *, drifts: bool) -> np.ndarray:
        noise = 0.1 * random.normal(size=(n, H, W, D))
        moved = np.einsum("ns,shwd->nhwd", random.normal(size=(n, 3)), drift) if drifts else 0
        return (usual + noise + moved).astype(np.float32)

    train, normals, test = images(40, drifts=False), images(8, drifts=True), images(60, drifts=True)
    test[40:, 5:7, 5:7] += 0.5 * random.normal(size=(20, 2, 2, D))  # the last 20 have an anomaly of 2 x 2 cells
    reference, calibration, lot = (Features((array,)) for array in (train, normals, test))
    for name, correction in (("Not calibrated", Identity()), ("SPARC", SPARC())):
        detector = PatchCore(coreset=0.1)
        scores = score_lot(detector, lot, reference=reference, calibration=calibration, correction=correction)
        print(f"{name}: image AUROC {auroc(np.arange(60) >= 40, scores.image.numpy()):.2f}")


if __name__ == "__main__":
    main()
