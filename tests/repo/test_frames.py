"""How far it is from a user's call to the maths: functions of sparcal on the way to `sparcal.sparc.subspace`."""

from __future__ import annotations

import sys

import pytest

from sparcal import sparc
from sparcal.cli import run
from sparcal.corrections import CORRECTIONS
from sparcal.detectors import PatchCore
from sparcal.score import score_lot
from sparcal.testing import normal_features
from tests.support.source_tree import PACKAGE
from tests.support.tiny_bench import COUNTS, RESNET
from tests.support.tiny_station import TinyEncoder, demo, pictures
from tests.support.trees import write_tree


@pytest.fixture
def ways(monkeypatch):
    """The functions from the user's call to Eqs. 2-6, outermost first, one list for each time they are computed."""
    taken: list[list[str]] = []
    plain = sparc.subspace

    def recorded(x, rank):
        frame, names = sys._getframe(1), ["subspace"]
        while frame is not None:
            code = frame.f_code
            # A comprehension is a frame of its own before Python 3.12, but no function that anybody reads.
            if code.co_filename.startswith(str(PACKAGE)) and not code.co_name.startswith("<"):
                names.append(code.co_qualname)
            frame = frame.f_back
        taken.append(names[::-1])
        return plain(x, rank)

    monkeypatch.setattr(sparc, "subspace", recorded)
    return taken


def test_score_lot_reaches_the_maths_in_four_frames(ways):
    make = normal_features((3, 4, 6))
    score_lot(PatchCore(), make(2, 3), reference=make(8, 1), calibration=make(4, 2), correction=CORRECTIONS["sparc"]())
    assert len(ways) == 1
    assert ways[0][0] == "score_lot"
    assert len(ways[0]) <= 4, " > ".join(ways[0])


def test_calibrating_a_station_reaches_the_maths_in_six_frames(ways, tmp_path):
    from sparcal import Station

    station = Station.fit(pictures(demo().train), encoder=TinyEncoder(), path=tmp_path / "station")
    assert ways == []  # a station has no lot yet
    station.calibrate(pictures(demo().lot_good[:6]), name="L1", correction="sparc")
    shortest = min((way for way in ways if way[0] == "Station.calibrate"), key=len)  # others began in a thread
    assert len(shortest) <= 6, " > ".join(shortest)


EXPERIMENT = """
name = "one"
title = "One unit"
[[units]]
datasets = ["folder"]
hosts = ["padim"]
corrections = ["sparc"]
ks = [4]
seeds = 1
[[tables]]
name = "one"
stub = ["Method"]
place = { dataset = "folder", metric = "image_auroc" }
rows = [{ over = "host" }]
columns = [{ over = [{ label = "SPARC" }], each = "comparison" }]
"""


def test_a_bench_run_reaches_the_maths_in_ten_frames(ways, tmp_path):
    (tmp_path / "one.toml").write_text(EXPERIMENT)
    write_tree("folder", tmp_path / "parts", per_split=COUNTS, categories=("alpha",), size=(64, 64))
    options = ["--out", str(tmp_path / "r"), "--cache", str(tmp_path / "c"), "--workers", "1", "--threads", "1"]
    options += ["--data", f"folder={tmp_path / 'parts'}", "--encoder", RESNET, "--weights", "random:0"]
    assert run(["bench", "run", str(tmp_path / "one.toml"), *options]) == 0
    assert len(ways) == 1
    command = ways[0][ways[0].index("run_experiment") :]  # what parses the command line stands before it
    assert len(command) <= 10, " > ".join(command)
