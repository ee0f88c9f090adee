"""Plug-ins: a tiny package joins every registry, passes the published checks, and a broken one harms nobody."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from sparcal import plugins
from sparcal.corrections import _accepted as accepted_correction
from sparcal.detectors import PatchCore
from sparcal.detectors import _accepted as accepted_detector
from sparcal.encoders import load_encoder
from sparcal.errors import DataError
from sparcal.plugins import PluginWarning
from sparcal.sparc import SPARC

PLUGIN = Path(__file__).parent / "support" / "tiny_plugin"

WALK = """
import json, sys
from pathlib import Path
import torch
from sparcal import CORRECTIONS, DETECTORS, HOSTS, Station, load_encoder
from sparcal.bench.datasets import DATASETS
from sparcal.rendering.parts import make_demo
from sparcal.testing import *
from tests.support.trees import write_tree

root = Path(sys.argv[1])
case = DetectorCase("nearest-mean", DETECTORS["nearest-mean"], normal_features((6, 8, 16)))
tree = write_tree("folder", root / "tree", categories=("alpha", "beta"))
checks = {
    **{"detector " + name: check for name, check in detector_checks(case).items()},
    **{"correction " + n: c for n, c in correction_checks(CorrectionCase("half", CORRECTIONS["half-mean"])).items()},
    **{"encoder " + n: c for n, c in encoder_checks(EncoderCase("tiny", lambda: load_encoder("tiny:edges"))).items()},
    **{"dataset " + n: c for n, c in dataset_checks(DatasetCase(DATASETS["tiny-parts"], tree)).items()},
}
for check in checks.values():
    check()
parts = make_demo(0, train=8, good=8, bad=2, size=64, shift="none")
station = Station.fit([p.image for p in parts.train], host="nearest-mean", path=root / "station")
lot = station.calibrate([p.image for p in parts.lot_good[:4]], name="L1", correction="half-mean", reason="a test")
again = Station.open(root / "station").lot()
scores = [one.score for one in again.score([p.image for p in parts.lot_bad])]
print(json.dumps({"checks": len(checks), "encoder": again.station.encoder.id, "scores": scores,
                  "correction": again.record.correction, "hosts": list(HOSTS)[-1]}))
"""


def printed(tmp_path, *words, path=PLUGIN):
    """What an interpreter prints that finds the packages in `path`; and what it complains of."""
    places = [str(path), str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_a_tiny_package_joins_everything_and_passes_the_published_checks(tmp_path):
    out, complaints = printed(tmp_path, "-W", "error", "-c", WALK, str(tmp_path))
    told = json.loads(out)
    assert complaints == ""
    assert told["checks"] == 17 + 15 + 9 + 5
    assert told["encoder"] == "tiny:edges?size=64"
    assert told["correction"] == "half-mean"
    assert told["hosts"] == "nearest-mean"
    assert all(score > 0 for score in told["scores"])


@pytest.mark.parametrize(
    ("command", "row"),
    [
        (["encoders"], {"name": "tiny:MODEL", "what": "Brightness and edges of 8 x 8 pixels; tiny:edges?size=64"}),
        (["hosts"], {"name": "nearest-mean", "encoder": "tiny:edges", "detector": "nearest-mean"}),
        (["bench", "datasets"], {"name": "tiny-parts", "title": "Tiny parts"}),
    ],
    ids=" ".join,
)
def test_the_lists_of_the_command_line_show_plugins(tmp_path, command, row):
    out, complaints = printed(tmp_path, "-m", "sparcal", *command, "--json")
    listed = json.loads(out)
    assert complaints == ""
    assert row.items() <= listed[-1].items()
    assert listed[-1]["package"] == "tiny-plugin 1.2.3"
    assert not any(one.get("package") for one in listed[:-1])


def test_a_broken_plugin_is_named_in_one_sentence_and_harms_nobody(tmp_path):
    (tmp_path / "broken-0.1.dist-info").mkdir()
    (tmp_path / "broken-0.1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 0.1\n")
    points = "[sparcal.encoders]\nlost = nowhere:load\n[sparcal.corrections]\nsparc = broken:x\nlost = broken:x\n"
    (tmp_path / "broken-0.1.dist-info/entry_points.txt").write_text(points)
    (tmp_path / "broken.py").write_text("raise RuntimeError('no licence\\nfound')\n")
    out, complaints = printed(tmp_path, "-m", "sparcal", "corrections", "--json", path=tmp_path)
    assert not any("package" in one for one in json.loads(out))
    assert complaints.splitlines() == [
        "Warning: The plug-in 'sparc' (sparcal.corrections) of broken 0.1 was expected to be usable, got the name "
        "'sparc' is taken: it is left out; update or uninstall the package.",
        "Warning: The plug-in 'lost' (sparcal.corrections) of broken 0.1 was expected to be usable, got RuntimeError: "
        "no licence found: it is left out; update or uninstall the package.",
    ]
    out, complaints = printed(tmp_path, "-m", "sparcal", "encoders", "--json", path=tmp_path)
    assert len(json.loads(out)) == 3
    assert "The plug-in 'lost' (sparcal.encoders) of broken 0.1" in complaints
    assert complaints.count("\n") == 1


@pytest.mark.parametrize(
    ("accepted", "entry", "reason"),
    [
        (accepted_detector, PatchCore(), "a PatchCore instead of a detector's class"),
        (accepted_detector, SPARC, "SPARC, which is not a dataclass with a family, fit and score"),
        (accepted_correction, "sparc", "a str instead of a CorrectionFacts or a correction's class"),
        (accepted_correction, PatchCore, "PatchCore, which is not a dataclass with fit, apply, apply_reference"),
    ],
)
def test_what_is_of_another_kind_is_refused(accepted, entry, reason):
    with pytest.raises(DataError, match=reason):
        accepted(entry)


def test_a_correction_may_come_as_a_class():
    assert accepted_correction(SPARC)().on == "both"


def test_a_refused_entry_leaves_the_others(monkeypatch):
    points = [EntryPoint(name, "sparcal:SPARC", "sparcal.detectors") for name in ("one", "two")]
    monkeypatch.setattr(plugins, "entry_points", lambda **_: points)

    def accept(entry):
        if found:
            raise DataError("a bad day")
        found.append(entry)
        return entry

    found: list[object] = []
    with pytest.warns(PluginWarning, match="'two' .* of an unknown package .*, got a bad day: it is left out"):
        assert plugins.plugins("sparcal.detectors", (), accept) == {"one": SPARC}


def test_an_encoder_plugin_must_load_an_encoder(monkeypatch):
    monkeypatch.setattr(plugins, "entry_points", lambda **_: [EntryPoint("odd", "builtins:len", "sparcal.encoders")])
    with pytest.raises(DataError, match="The plug-in 'odd' was expected to load odd:thing, got TypeError: .*: ask who"):
        load_encoder("odd:thing")
    point = EntryPoint("odd", "tests.test_plugins:load_nothing", "sparcal.encoders")
    monkeypatch.setattr(plugins, "entry_points", lambda **_: [point])
    with pytest.raises(DataError, match="The plug-in 'odd' must give an encoder, got a NoneType"):
        load_encoder("odd:thing")
    monkeypatch.setattr(plugins, "entry_points", lambda **_: [EntryPoint("odd", "sys:path", "sparcal.encoders")])
    with pytest.raises(DataError, match="The plug-in 'odd' must be a function that loads encoders"):
        load_encoder("odd:thing")
    monkeypatch.setattr(plugins, "entry_points", lambda **_: [])
    with pytest.raises(DataError, match="There is no plug-in 'odd' in sparcal.encoders"):
        plugins.load_plugin("sparcal.encoders", "odd")


def load_nothing(spec, *, weights, recipe):
    assert (spec.source, weights, recipe) == ("odd", None, None)
