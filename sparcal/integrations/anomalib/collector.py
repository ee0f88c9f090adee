"""Training features, kept while anomalib fits a model."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from lightning.pytorch import Callback

from sparcal.errors import DataError
from sparcal.integrations.anomalib.adapters import refuse_calibrated, refuse_tiling
from sparcal.integrations.anomalib.passes import keeper, recording
from sparcal.types import Features

if TYPE_CHECKING:
    from sparcal.integrations.anomalib.calibrator import LotCalibrator


class FeatureCollector(Callback):
    """Keeps the features of every training batch; make one with `LotCalibrator.collector`."""

    def __init__(self, calibrator: LotCalibrator) -> None:
        self.calibrator = calibrator
        self.parts: list[Features] = []
        self.size = (0, 0)
        self.undo = ExitStack()

    def on_train_start(self, _trainer: Any, model: Any) -> None:
        """Start anew."""
        if model is not self.calibrator.model:
            raise DataError(
                f"This collector belongs to another {type(self.calibrator.model).__name__} than the one in training: "
                "make one from a LotCalibrator of that model."
            )
        refuse_calibrated(model)
        refuse_tiling(model)
        self.parts = []

    def on_train_batch_start(self, *_: Any) -> None:
        """Record the features of one batch."""
        self.undo.enter_context(recording(*self.calibrator.site, keeper(self.parts, self.calibrator.to_features)))

    def on_train_batch_end(self, _trainer: Any, _model: Any, _outputs: Any, batch: Any, _index: int) -> None:
        """Stop recording: validation images are none of ours."""
        self.undo.close()
        self.size = (batch.image.shape[-2], batch.image.shape[-1])

    def on_train_end(self, _trainer: Any, _model: Any) -> None:
        """Hand the features over."""
        self.calibrator.keep(self.parts, self.size)
        self.parts = []

    def on_exception(self, _trainer: Any, _model: Any, _error: BaseException) -> None:
        """Leave the model as it was."""
        self.undo.close()
