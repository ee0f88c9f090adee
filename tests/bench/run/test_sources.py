"""The digest of the code: it covers whatever a unit loads, and changes when a mask is read in another way."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import sparcal
from sparcal.bench.datasets import Counts
from sparcal.bench.run.sources import code_digest, score_sources, sources_digest
from tests.support.trees import write_tree

HOME = Path(sparcal.__file__).parent

RUN = """
import sys
from sparcal.bench.run.evaluator import Evaluator
from sparcal.bench.run.workplace import Workplace
from sparcal.bench.plan.contenders import resolve_encoder
from sparcal.bench.plan.unit import Unit
encoder = resolve_encoder("patchcore", other="timm:test_resnet.r160_in1k?resize=square&size=64")
for correction in ("sparc", "coral", "batchnorm"):
    unit = Unit("rad", "bolt", "patchcore", correction, 4, 0, "", encoder, weights="random:0")
    Evaluator(Workplace({"rad": sys.argv[1]}, sys.argv[2], sys.argv[2])).run(unit)
print(*sorted(name for name in sys.modules if name.startswith("sparcal.")))
"""


def test_every_module_that_a_unit_loads_is_covered(tmp_path):
    tree = write_tree("rad", tmp_path / "rad", per_split=Counts(4, 0, 8, 3), categories=("bolt",))
    call = [sys.executable, "-c", RUN, str(tree), str(tmp_path / "cache")]
    loaded = subprocess.run(call, capture_output=True, text=True, check=True).stdout.split()
    assert "sparcal.bench.datasets.record" in loaded
    assert set(loaded) <= set(score_sources())


def test_what_decides_a_score_is_covered_and_what_shows_it_is_not():
    names = set(score_sources())
    for part in (
        "bench.datasets.record",
        "bench.datasets.visa",
        "bench.metrics.region_overlap",
        "imaging.maps",
        "encoders.openclip",
    ):
        assert f"sparcal.{part}" in names
    for part in ("detectors.musc", "corrections.coral", "encoders.batchnorm", "neighbours.search", "sparc", "score"):
        assert f"sparcal.{part}" in names
    assert not any(name.startswith(("sparcal.cli", "sparcal.server", "sparcal.export")) for name in names)
    assert "sparcal.bench.report.table" not in names
    assert "sparcal.bench.run.local_runner" not in names


def test_another_way_to_read_masks_is_other_code(tmp_path):
    """A changed `read_mask` once gave a stale base of 97.3 beside a fresh 84.5."""
    home = shutil.copytree(HOME, tmp_path / "sparcal", ignore=shutil.ignore_patterns("__pycache__"))
    assert sources_digest(score_sources(home=home)) == code_digest()
    for changed, other in (("bench/datasets/record.py", True), ("bench/report/table.py", False)):
        file = home / changed
        file.write_text(file.read_text() + "\n# changed\n")
        assert (sources_digest(score_sources(home=home)) != code_digest()) is other
        shutil.copyfile(HOME / changed, file)


def test_imports_are_followed_into_functions_relative_ones_and_names(tmp_path):
    home = tmp_path / "sparcal"
    files = {
        "__init__.py": "from sparcal.everything import x",
        "start.py": "def f():\n    from sparcal.room import inner\n",
        "room/__init__.py": "",
        "room/inner.py": "from . import beside\nfrom .more import y\nimport os\nHOMES = {'a': 'sparcal.named', 'b': 'sparcal.no'}",
        "room/beside.py": "",
        "room/more.py": "",
        "named.py": "import sparcal",
        "everything.py": "",
    }
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    names = ("named", "room", "room.beside", "room.inner", "room.more", "start")
    assert list(score_sources("sparcal.start", home)) == [f"sparcal.{name}" for name in names]
