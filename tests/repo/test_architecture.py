"""How the package hangs together: rooms and who may import whom, what stays light, what is forbidden everywhere."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

import sparcal
from tests.support.source_tree import MODULES, imports, tree

# A room imports only rooms of the lines above its own.
ROOMS = (
    ("errors",),
    ("settings", "arrays", "compiled"),
    ("types", "files", "threads", "plugins", "devices", "runtimes", "ray_cluster", "progress"),
    ("feature_checks",),
    ("memory", "imaging", "neighbours", "rendering", "sparc_kernels"),
    ("sparc", "encoders"),
    ("corrections", "detectors"),
    ("artifacts", "score", "hosts"),
    ("calibration",),
    ("station",),
    ("export",),
    ("bench", "server", "integrations"),
    ("cli", "testing"),
    ("__main__",),
)

# The same inside the two rooms that have rooms of their own.
INNER = {
    "bench": (
        ("metrics", "stats", "diagnostics", "experiments", "datasets"),
        ("plan",),
        ("run",),
        ("report",),
        ("demo", "fidelity"),
    ),
    "server": (("settings", "refusals", "sentences"), ("data",), ("work", "web")),
}

# Type checkers may look up where running code may not: an encoder's protocol names its preprocessing.
FOR_TYPES_ONLY = {("sparcal.types", "sparcal.imaging.maps"), ("sparcal.types", "sparcal.imaging.preprocess")}

# The web process hands out and watches the work of the other process; it calls none of it.
ACROSS = {
    ("sparcal.server.web.app", "sparcal.server.work.supervisor"),
}

# Modules, and whole rooms, that run where torch is missing or would take seconds to load.
TORCH_FREE = (
    "bench.datasets.aebad_s",
    "bench.datasets.catalogue",
    "bench.datasets.check",
    "bench.datasets.mvtec_ad_2",
    "bench.datasets.mvtec_like",
    "bench.datasets.record",
    "bench.datasets.visa",
    "bench.report.paper",
    "bench.stats",
    "calibration.thresholds",
    "cli",
    "compiled",
    "devices",
    "errors",
    "export.lot",
    "export.exported_lot",
    "export.lot_state",
    "export.runner",
    "files",
    "imaging.camera_format",
    "imaging.decode",
    "imaging.find",
    "imaging.map_matrices",
    "imaging.overlay",
    "imaging.preprocess",
    "neighbours._coreset_kernels",
    "neighbours._distance_kernels",
    "neighbours._search_kernels",
    "plugins",
    "progress",
    "ray_cluster",
    "rendering",
    "runtimes",
    "server",
    "settings",
    "sparc_kernels",
    "station.folder",
    "station.judge_facts",
    "station.judged_folder",
    "station.judged_page",
    "station.lot_name",
    "station.watch",
    "threads",
)


def test_every_module_stands_in_a_room():
    rooms = {room for line in ROOMS for room in line}
    assert {name.split(".")[1] for name in MODULES if name != "sparcal"} == rooms
    for outer, lines in INNER.items():
        inner = {name.split(".")[2] for name in MODULES if name.startswith(f"sparcal.{outer}.")}
        assert inner == {room for line in lines for room in line}, outer


@pytest.mark.parametrize("name", [name for name in MODULES if name != "sparcal"])
def test_a_room_imports_only_rooms_above_it(name):
    for used in imports(MODULES[name]):
        if used.module == "sparcal" or (used.for_types and (name, used.module) in FOR_TYPES_ONLY):
            continue  # `from sparcal import __version__` loads nothing
        own, other = name.split("."), used.module.split(".")
        if own[1] != other[1]:
            assert line_of(other[1], ROOMS) < line_of(own[1], ROOMS), f"{name} imports {used.module}"
        elif own[1] in INNER and len(own) > 2 and len(other) > 2 and own[2] != other[2]:
            lines = INNER[own[1]]
            allowed = line_of(other[2], lines) < line_of(own[2], lines) or (name, used.module) in ACROSS
            assert allowed, f"{name} imports {used.module}"


def line_of(room, lines):
    return next(number for number, line in enumerate(lines) if room in line)


def test_public_names_are_what_they_say():
    assert sorted(sparcal.__all__) == sorted(sparcal._HOMES)
    for name in sparcal.__all__:
        assert getattr(sparcal, name) is not None
    assert len(sparcal.__all__) <= 16
    assert set(dir(sparcal)) == {*sparcal.__all__, "__version__"}


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(AttributeError, match="has no attribute 'Sparc'; it offers CORRECTIONS, DETECTORS"):
        _ = sparcal.Sparc


def test_nothing_pickles_or_evaluates():
    """Catching pickle's error, which torch raises on a foreign file, is the only use of it."""
    forbidden = {
        f"{module}.{name}" for module in ("pickle", "dill", "joblib") for name in ("load", "loads", "dump", "dumps")
    }
    for path in MODULES.values():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call):
                assert ast.unparse(node.func) not in forbidden | {"eval", "exec"}, path


def test_torch_stays_out_of_what_does_not_need_it():
    for entry in TORCH_FREE:
        assert f"sparcal.{entry}" in MODULES, f"{entry} is gone: take it off the list"
    light = [
        name
        for name in MODULES
        if any(name == f"sparcal.{entry}" or name.startswith(f"sparcal.{entry}.") for entry in TORCH_FREE)
    ]
    code = f"""
import importlib, sys
for name in {light!r}:
    importlib.import_module(name)
    if "torch" in sys.modules:
        sys.exit(f"{{name}} loads torch")
"""
    assert printed_by(code) == ""


def test_importing_the_station_pulls_in_little():
    """52 modules before the rooms; half of it at most."""
    code = "import sys, sparcal.station.station; print(*(n for n in sys.modules if n.split('.')[0] == 'sparcal'))"
    loaded = printed_by(code).split()
    assert len(loaded) <= 26, f"{len(loaded)}: {' '.join(sorted(loaded))}"


def printed_by(code):
    """What a fresh interpreter prints; what it complains of, if it fails."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
