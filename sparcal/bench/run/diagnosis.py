"""The paper's diagnostics of one draw on bare features, as sums and counts that the report pools over draws."""

from __future__ import annotations

import torch

from sparcal.bench.datasets import read_mask
from sparcal.bench.diagnostics import contrast, dc_energy, overlap, touched_cells
from sparcal.bench.plan.protocol import CalibrationDraw
from sparcal.bench.run.category import CategoryFeatures
from sparcal.sparc import SPARC
from sparcal.types import Features, require_reference


def diagnose(calibration: Features, lot: CategoryFeatures, draw: CalibrationDraw) -> dict[str, float]:
    """Energies of the calibration draw, overlap and contrast of the evaluated images, by name."""
    sparc = SPARC().fit(calibration)
    h, w, d = calibration.grids[0]
    energy = dc_energy(calibration, require_reference(sparc, lot.reference))
    numbers = {
        "dc_energy": energy.first,
        "subspace_energy": energy.second,
        "isotropic": (len(calibration) - 1) / d,
    }
    positions = lot.positions(draw.evaluated)
    pairs = zip(draw.evaluated, positions, strict=True)
    touched = [
        touched_cells(read_mask(record, lot.geometries[i].native), lot.geometries[i], (h, w)) for record, i in pairs
    ]
    test, anomalous = lot.test[positions], torch.stack(touched)
    rho, distances = overlap(sparc, test, anomalous), contrast(sparc, test, anomalous)
    for name, mean in (
        ("rho_anom", rho),
        ("base_anomalous", distances.base_anomalous),
        ("base_normal", distances.base_normal),
        ("sparc_anomalous", distances.sparc_anomalous),
        ("sparc_normal", distances.sparc_normal),
    ):
        numbers |= {f"{name}_sum": mean.sum, f"{name}_count": float(mean.count)}
    return numbers
