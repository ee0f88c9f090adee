"""A station of own parts: encoders, detectors and corrections of other people, and features that are there already."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import pytest
import torch

from sparcal.corrections import MeanOnly
from sparcal.detectors import PaDiM, PatchCore
from sparcal.errors import ArtifactError, DataError, ShapeError
from sparcal.imaging.encode import encode
from sparcal.imaging.maps import MapRule
from sparcal.sparc import SPARC
from sparcal.station.making import FitRequest
from sparcal.station.station import Station
from sparcal.types import Features, Scores
from tests.support.tiny_station import TinyEncoder, demo, pictures


@dataclass
class MeanDistance:
    """Somebody's detector: distance to the mean of the reference."""

    power: float = 1.0
    map_rule: MapRule = MapRule(8)
    family: str = field(default="reference", init=False)
    mean_: torch.Tensor | None = field(default=None, init=False, repr=False)

    def fit(self, reference):
        self.mean_ = reference.levels[0].mean(dim=0)
        return self

    def score(self, features):
        cell = torch.linalg.vector_norm(features.levels[0] - self.mean_, dim=-1) ** self.power
        return Scores(cell.flatten(1).amax(dim=1), cell)


def of_family(name):
    made = MeanDistance()
    made.family = name
    return made


class TwoForOne(TinyEncoder):
    """Somebody's encoder that forgets which rows belong to which image."""

    def __call__(self, pixels):
        found = super().__call__(pixels)
        return Features.cat([found, found])


@dataclass
class Silent(MeanDistance):
    """Somebody's detector that forgets to return what it found."""

    def score(self, features):
        super().score(features)


@dataclass
class Half:
    """Somebody's correction: half of the mean is removed."""

    on: str = "both"
    mean_: torch.Tensor | None = field(default=None, init=False, repr=False)

    def fit(self, calibration, reference=None):  # noqa: ARG002
        self.mean_ = calibration.levels[0].mean(dim=0) / 2
        return self

    def apply(self, features):
        return features.map(lambda x: x - self.mean_)

    apply_reference = apply


@dataclass
class Forgetful(Half):
    """Somebody's correction that keeps what no file can."""

    def fit(self, calibration, reference=None):
        self.model_ = object()
        return super().fit(calibration, reference)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    path = tmp_path_factory.mktemp("making") / "station"
    return Station.fit(pictures(demo().train[:12]), path=path, encoder=TinyEncoder(), detector=MeanDistance(power=2.0))


def normals():
    return pictures(demo("lights").lot_good[:5])


def test_somebodys_detector_is_kept_and_comes_back_where_its_class_is_given(fitted):
    assert fitted.detector.power == 2.0
    again = Station.open(fitted.path, encoder=TinyEncoder(), kinds=[MeanDistance])
    parts = pictures(demo().lot_bad[:2])
    assert [one.score for one in again.lot().score(parts)] == [one.score for one in fitted.lot().score(parts)]
    with pytest.raises(ArtifactError, match="holds a 'tests.station.test_making:MeanDistance', which is neither"):
        _ = Station.open(fitted.path, encoder=TinyEncoder()).detector


def test_somebodys_correction_is_kept_with_its_lot(fitted):
    lot = fitted.calibrate(normals(), "half", correction=Half())
    assert lot.record.correction == "Half"
    assert lot.record.asked == "tests.station.test_making:Half"
    again = Station.open(fitted.path, encoder=TinyEncoder(), kinds=[MeanDistance, Half]).lot("half")
    assert again.score(normals())[0].score == lot.score(normals())[0].score
    assert again.record.self_test.planted == 64


def test_our_own_corrections_have_one_name_however_they_are_asked_for(fitted):
    lot = fitted.calibrate(normals(), "own", correction=SPARC(rank=2, recentre="cell"))
    assert (lot.record.correction, lot.record.choice.settings) == ("sparc-recentred", {"rank": 2})
    assert lot.calibrated.correction.rank == 2
    named = fitted.calibrate(normals(), "named", correction=MeanOnly())
    assert (named.record.correction, named.record.choice.settings) == ("mean-only", {})


def test_what_cannot_be_saved_is_refused_before_the_work(fitted, tmp_path):
    with pytest.raises(DataError, match=r"got an object in .*Forgetful.model_: give the class state and from_state"):
        fitted.calibrate(normals(), "no", correction=Forgetful())
    assert not fitted.folder.lot("no").exists()
    with pytest.raises(DataError, match=r"got a set in .*MeanDistance.power"):
        Station.fit(normals(), path=tmp_path / "s", encoder=TinyEncoder(), detector=MeanDistance(power={1}))
    assert not (tmp_path / "s").exists()


def test_what_gives_something_else_than_its_role_says_is_refused(tmp_path):
    parts = normals()
    with pytest.raises(ShapeError, match=r"must give features .* for every image, in order, got 2 for 1"):
        Station.fit(parts, path=tmp_path / "s", encoder=TwoForOne())
    with pytest.raises(ShapeError, match=r"must give features .* got \d+ for \d+"):
        encode(TwoForOne(), parts)
    with pytest.raises(ShapeError, match="The detector Silent must give Scores .*got a NoneType"):
        Station.fit(parts, path=tmp_path / "t", encoder=TinyEncoder(), detector=Silent())
    assert not (tmp_path / "t" / "station.json").exists()


@pytest.mark.parametrize(
    ("correction", "sentence"),
    [
        ("SPARC", "There is no correction 'SPARC'; choose from auto, identity, sparc"),
        (3, "A correction must be a name or an object with on, fit, apply and apply_reference, got 3"),
        (SPARC, "A correction must be a name or an object .*, got <class 'sparcal.sparc.SPARC'>: choose"),
        (None, "got None"),
        (Half(on="bth"), "Half.on must be one of both, reference, test, got 'bth'"),
    ],
)
def test_what_is_no_correction_is_refused(fitted, correction, sentence):
    with pytest.raises(DataError, match=sentence):
        fitted.calibrate(normals(), "x", correction=correction)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"path": 3}, "A station's path must be a str or a Path, got 3"),
        ({"host": 3}, "A host's name must be a text, got 3"),
        ({"host": "patch"}, "There is no host 'patch'"),
        ({"encoder": 3}, "An encoder must be a name, or an object with id, preprocess"),
        ({"encoder": TinyEncoder(id=3)}, "The encoder's id must be a text, got 3"),
        ({"encoder": TinyEncoder(id=" ")}, "The encoder's id must be one line of letters, got ' '"),
        ({"encoder": TinyEncoder(id="a\nb")}, "The encoder's id must be one line of letters"),
        ({"detector": MeanDistance(map_rule=None)}, "A detector's map_rule must be a MapRule, got None"),
        ({"detector": of_family("odd")}, "A detector's family must be one of reference, mutual, cls, got 'odd'"),
        ({"detector": "padim"}, "A detector must be an object with family, map_rule, fit and score, got 'padim'"),
        ({"detector": PatchCore}, "A detector must be an object"),
        ({"workers": 0}, "workers must be a whole number of at least 1, got 0"),
        ({"workers": True}, "workers must be a whole number"),
        ({"insist": "yes"}, "insist must be True or False, got 'yes'"),
        ({"operator": 7}, "The operator must be a text or None, got 7"),
        ({"weights": 7}, "weights must be a str or a Path or None, got 7"),
    ],
)
def test_a_wrong_request_is_refused(changed, sentence):
    with pytest.raises(DataError, match=sentence):
        FitRequest(**{"path": "x", **changed})


def test_features_that_are_there_already_give_the_same_station(tmp_path):
    images, encoder = pictures(demo().train[:10]), TinyEncoder()
    encoded = encode(encoder, images).features
    settings = {"encoder": encoder, "detector": PaDiM(map_rule=MapRule(8))}
    station = Station.fit(images, path=tmp_path / "s", **settings)
    before = encoder.calls
    given = Station.fit(images, path=tmp_path / "t", features=encoded, **settings)
    planted = 96
    assert encoder.calls - before == 3 + planted
    assert given.record.own == pytest.approx(station.record.own, rel=1e-6)
    assert given.calibrate(normals(), "L").record.name == "L"


def test_features_of_something_else_are_refused(tmp_path):
    images, encoder = pictures(demo().train[:10]), TinyEncoder()
    features = encode(encoder, images)

    def fit(given):
        Station.fit(images, path=tmp_path / "s", encoder=encoder, features=given)

    with pytest.raises(ShapeError, match=r"features= must be Features, got an Encoded: pass its .features"):
        fit(features)
    with pytest.raises(DataError, match="one row per image, in order, got 9 for 10 images"):
        fit(features.features[:9])
    with pytest.raises(DataError, match="must be what the encoder gives for image-0, got others, .* away"):
        fit(features.features[list(range(9, -1, -1))])
    with pytest.raises(DataError, match=r"must be on the encoder's grids .* got \(\(4, 8, 12\),\)"):
        fit(Features((features.features.levels[0][:, :4],)))
    broken = copy.deepcopy(features.features)
    broken.levels[0][3, 0, 0, 0] = torch.nan
    with pytest.raises(DataError, match="features= must be finite, got NaN or infinity in level 0 of image 3"):
        fit(broken)


def test_stations_and_lots_are_written_in_one_line(fitted):
    assert repr(fitted) == f"<Station {str(fitted.path)!r}: patchcore on 12 images>"
    lot = fitted.calibrate(normals(), "[/] one line", correction="sparc")
    said = repr(lot)
    assert said.startswith("<Lot [/] one line, sparc: 5 images, threshold ")
    assert "\n" not in said
    assert len(said) < 160
    assert repr(fitted.own()).startswith("<The station's own reference, not calibrated to any lot: threshold ")


@pytest.mark.parametrize("name", [7, None, b"L1"])
def test_a_lots_name_is_a_text(fitted, name):
    with pytest.raises(DataError, match="A lot's name must be a text, got"):
        fitted.calibrate(normals(), name)
