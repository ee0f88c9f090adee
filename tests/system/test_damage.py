"""Every file of a station, spoilt in every way, under every command: it works as before, or refuses in one sentence."""

from __future__ import annotations

import json
import shutil

import pytest

from sparcal.cli import run
from tests.support.damaged_station import DAMAGES, HEAVY, LIGHT, command, files_of, judged, outcome, spoil
from tests.support.tiny_line import SIZE, fill

KINDS = (
    *("record", "features", "reference", "folds", "training part", "station's self-test", "lot's record"),
    *("lot's correction", "lot's reference", "lot's maps", "lot's part", "lot's self-test", "thresholds by hand"),
    *("active lot", "history"),
)
EVERY = [(kind, damage) for kind in KINDS for damage in DAMAGES]
# Commands that take more than a moment meet a few damages here, and all of them in the slow test.
SAMPLE = [
    *(("folds", "flipped", "calibrate"), ("features", "flipped", "calibrate"), ("record", "empty", "fit --add")),
    *(("folds", "deleted", "test"), ("lot's part", "flipped", "test"), ("lot's correction", "deleted", "export")),
    *(("active lot", "truncated", "serve"), ("lot's record", "flipped", "serve")),
    *(("features", "deleted", "fit --add"), ("features", "of another station", "fit --add")),
]


def make(root, train):
    station = str(root / "station")
    words = ["fit", str(root / train), "--station", station, "--encoder", f"bundled?size={SIZE}"]
    assert run([*words, "--insist"]) == 0
    for lot in ("L2", "L1"):
        calibrate = ["calibrate", station, str(root / "normals"), "--lot", lot, "--correction", "sparc-recentred"]
        assert run([*calibrate, "--activate"]) == 0
    assert run(["show", station, "--threshold", "1.5"]) == 0


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A station, and another one that has the same names for everything."""
    root, twin = fill(tmp_path_factory.mktemp("damage")), fill(tmp_path_factory.mktemp("twin"))
    (root / "one").mkdir()
    shutil.copy(next(iter(sorted((root / "lot").iterdir()))), root / "one" / "part.png")
    for path in list((twin / "train").iterdir())[:4]:
        path.unlink()
    make(root, "train")
    make(twin, "train")
    return root, twin


@pytest.fixture(scope="module")
def usual(places, tmp_path_factory):
    """What each command answers on a whole station, found out once."""
    root, _ = places
    known = {}

    def get(name):
        if name not in known:
            copy = tmp_path_factory.mktemp("whole")
            shutil.copytree(root / "station", copy / "station")
            code, answer, said = outcome(command(name, root, copy / "station", copy))
            assert code == 0, said
            known[name] = judged(name, answer)
        return known[name]

    return get


@pytest.fixture(autouse=True)
def no_web_server(monkeypatch):
    """The web station is made and asked for its state, but does not listen."""
    from fastapi.testclient import TestClient

    def answer_once(self, sockets=None):  # noqa: ARG001
        with TestClient(self.config.app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
            response = client.get("/api/v1/status")
            assert "Traceback" not in response.text

    monkeypatch.setattr("uvicorn.Server.run", answer_once)


@pytest.fixture
def check(places, usual, tmp_path, record_property):
    """A command on a spoilt station; what came of it goes to the page about reliability."""

    def spoil_and_run(kind, damage, name):
        for key, value in (("kind", kind), ("damage", damage), ("command", name)):
            record_property(key, value)
        refused = refuses(kind, damage, name, places, usual, tmp_path)
        record_property("ended", "refused" if refused else "as before")

    return spoil_and_run


def refuses(kind, damage, name, places, usual, tmp_path):
    root, twin = places
    expected = usual(name)
    shutil.copytree(root / "station", tmp_path / "station")
    spoil(files_of(tmp_path / "station")[kind], damage, files_of(twin / "station")[kind])
    code, answer, said = outcome(command(name, root, tmp_path / "station", tmp_path))
    assert "Traceback" not in said
    assert "Something unexpected" not in said
    assert code in (0, 1), said
    sentences = [line for line in said.splitlines() if line.strip()]
    if code == 0:
        assert judged(name, answer) == expected, said
    else:
        assert sentences
    assert all(line.endswith(".") for line in sentences), said
    return code == 1


@pytest.mark.parametrize("name", LIGHT)
@pytest.mark.parametrize(("kind", "damage"), EVERY)
def test_every_damage_under_every_quick_command(kind, damage, name, check):
    check(kind, damage, name)


@pytest.mark.parametrize(("kind", "damage", "name"), SAMPLE)
def test_some_damages_under_the_others(kind, damage, name, check):
    check(kind, damage, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", HEAVY)
@pytest.mark.parametrize(("kind", "damage"), EVERY)
def test_every_damage_under_the_others(kind, damage, name, check):
    check(kind, damage, name)


def test_one_damaged_lot_hides_none_of_the_others(places, tmp_path):
    root, twin = places
    shutil.copytree(root / "station", tmp_path / "station")
    spoil(files_of(tmp_path / "station")["lot's record"], "flipped", twin)
    code, answer, said = outcome(["lots", str(tmp_path / "station")])
    assert code == 1
    assert [row["lot"] for row in json.loads(answer)] == ["L2", "L1"]
    assert "lots/L1/lot.json" in said
    code, _, _ = outcome(["lots", str(tmp_path / "station"), "--own"])
    assert code == 0
    assert outcome(["score", str(tmp_path / "station"), str(root / "one"), "--lot", "L2"])[0] == 0


def test_what_is_lost_can_be_set_again(places, tmp_path):
    root, _ = places
    station = tmp_path / "station"
    shutil.copytree(root / "station", station)
    files = files_of(station)
    files["thresholds by hand"].unlink()
    files["active lot"].unlink()
    assert outcome(["score", str(station), str(root / "one")])[0] == 1
    assert outcome(["lots", str(station), "--activate", "L1"])[0] == 0
    assert outcome(["score", str(station), str(root / "one")])[0] == 1
    assert outcome(["show", str(station), "--threshold", "1.5"])[0] == 0
    assert outcome(["score", str(station), str(root / "one")])[0] == 0
