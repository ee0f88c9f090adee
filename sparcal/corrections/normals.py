"""The plain rival that anybody would try first: put the lot's calibration normals into the reference."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Self, get_args

from torch import Tensor

from sparcal.feature_checks import check_given, check_grid
from sparcal.settings import one_of, parameters
from sparcal.sparc import SPARC, Recentre, check_calibration
from sparcal.types import Features, Side, check_side, fitted

After = Literal["none", "sparc", "recentred"]


@dataclass
class NormalsInReference:
    """Adds the calibration normals to the reference, alone or after SPARC has corrected everything.

    Args:
        after: "none" leaves all features as they are; "sparc" and "recentred" correct reference, normals and test
            features first. At full rank SPARC collapses the normals to their mean, so it is that mean which is added.

    After `fit`: `normals_`, one (k, h, w, d) per level; `cls_`, (k, c) or None; `sparc_`, the SPARC or None.
    """

    after: After = "none"
    on: Side = "both"
    normals_: tuple[Tensor, ...] | None = field(default=None, init=False, repr=False)
    cls_: Tensor | None = field(default=None, init=False, repr=False)
    sparc_: SPARC | None = field(default=None, init=False, repr=False)

    get_params = parameters

    def __post_init__(self) -> None:
        one_of(self.after, "NormalsInReference.after", get_args(After))
        check_side(self.on, "NormalsInReference.on")

    def fit(self, calibration: Features, reference: Features | None = None) -> Self:
        """Keep the normals, and fit SPARC where `after` asks for it."""
        check_calibration(calibration, "NormalsInReference")
        check_given(reference, "NormalsInReference")
        self.sparc_ = None
        if self.after != "none":
            recentre: Recentre = "cell" if self.after == "recentred" else "none"
            self.sparc_ = SPARC(recentre=recentre).fit(calibration, reference)
        self.normals_, self.cls_ = self._corrected(calibration).levels, calibration.cls
        return self

    def apply(self, features: Features) -> Features:
        """The features, after SPARC where `after` asks for it."""
        check_grid(features, self._cells(), "NormalsInReference.apply")
        return self._corrected(features)

    def apply_reference(self, reference: Features) -> Features:
        """The reference, after SPARC where `after` asks for it, and behind it the normals."""
        normals = fitted(self, self.normals_)
        check_grid(reference, self._cells(), "NormalsInReference.apply_reference")
        corrected = self.sparc_.apply_reference(reference) if self.sparc_ is not None else reference
        return Features.cat([corrected, Features(normals, self.cls_)])

    def export_state(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """What SPARC does to the test side, as `SPARC.export_state` gives it; None without SPARC."""
        fitted(self, self.normals_)
        return self.sparc_.export_state() if self.sparc_ is not None else None

    def _cells(self) -> tuple[Tensor, ...]:
        """One normal, (h, w, d) per level: what features must look like."""
        return tuple(x[0] for x in fitted(self, self.normals_))

    def _corrected(self, features: Features) -> Features:
        """The features after SPARC, where `after` asks for it."""
        return self.sparc_.apply(features) if self.sparc_ is not None else features
