"""Lot calibration for models that anomalib has trained, without a fork of it.

calibrator = LotCalibrator(model)                      # Patchcore, Padim, AnomalyDINO or WinClip
engine = Engine(callbacks=[calibrator.collector()])    # keeps the training features, which anomalib drops
engine.fit(model, datamodule=datamodule)
report = calibrator.calibrate("lot42/good")            # 2 to 8 good parts; planted defects choose the correction
print(report)                                          # what was taken, what it would find, what to look at
engine.predict(model, data_path="lot42/all")           # scores and labels of the calibrated model
calibrator.reset()                                     # the model as it was trained, bit for bit
"""

from __future__ import annotations

from sparcal.errors import MissingExtraError

try:
    from sparcal.integrations.anomalib.calibrator import LotCalibrator
    from sparcal.integrations.anomalib.checkpoint import load_calibrated
    from sparcal.integrations.anomalib.collector import FeatureCollector
    from sparcal.integrations.anomalib.lot_report import LotReport
    from sparcal.integrations.anomalib.model_thresholds import ModelThresholds
except ModuleNotFoundError as error:
    if (error.name or "").split(".")[0] not in ("anomalib", "lightning"):
        raise
    raise MissingExtraError(
        f"sparcal.integrations.anomalib needs anomalib 2.4 or newer, got no module {error.name}: "
        "pip install 'sparcal[anomalib]'."
    ) from error

__all__ = ["FeatureCollector", "LotCalibrator", "LotReport", "ModelThresholds", "load_calibrated"]
