"""The contract of every role, for whoever writes an encoder, a detector, a correction or a dataset of their own.

    from sparcal.testing import DetectorCase, detector_checks, normal_features

    CASE = DetectorCase("nearest-mean", NearestMean, normal_features((6, 8, 16)))

    @pytest.mark.parametrize("check", detector_checks(CASE).values(), ids=detector_checks(CASE))
    def test_contract(check):
        check()

A check takes no argument and raises an `AssertionError` with a sentence where the contract is broken; it needs torch,
and no pytest. What sparcal offers itself is held to the same lists.
"""

from sparcal.testing.correction_contract import CorrectionCase, correction_checks
from sparcal.testing.dataset_contract import DatasetCase, dataset_checks
from sparcal.testing.detector_contract import DetectorCase, detector_checks
from sparcal.testing.encoder_contract import EncoderCase, encoder_checks
from sparcal.testing.made_features import normal_features, plant_outlier

__all__ = [
    "CorrectionCase",
    "DatasetCase",
    "DetectorCase",
    "EncoderCase",
    "correction_checks",
    "dataset_checks",
    "detector_checks",
    "encoder_checks",
    "normal_features",
    "plant_outlier",
]
