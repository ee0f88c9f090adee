"""What keeps the house tidy: one meaning per public name, files and functions one can read, a test beside each module."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from statistics import median

import pytest

from tests.support.source_tree import MODULES, PACKAGE, functions, public_names

TESTS = Path(__file__).parents[1]

# Public names that more than one module may define, and why that confuses nobody.
DEFINED_TWICE = {
    "MAP_RULE": "every detector has its authors' own way from cells to pixels",
    "main": "the entry of each program",
    "register": "each file of the command line adds its own commands",
    "router": "each file of the web interface adds its own routes",
    "calibrate": "the function, and the command and the route that are called after it",
    "lots": "a command and a page, each called as people call it",
    "run": "`sparcal.cli.run` runs any command; `bench run` is one",
}

# ---- Being renamed right now; this section goes as soon as that is done. ----
STILL_TO_RENAME = {
    *("BATCHNORM", "BLOCK", "COLUMNS", "FOLDER", "FORMAT", "FORMATS", "Floats", "Geometry"),
    *("HEADER", "Judgement", "Kind", "LONGEST", "Lot", "METRICS", "Mode", "Note", "Number", "OfLot", "Outcome"),
    *("Picture", "Place", "Progress", "Results", "Row", "SHOWN", "SUFFIXES", "Scores", "Settings"),
    *("Shift", "TITLES", "Value", "Verdict", "compare", "decide", "encode", "encoder_text", "forget", "get"),
    *("judge", "keeps_rows", "measure", "nearest", "now", "report", "require_images", "turn"),
    *("worst_first", "write_page"),
}

# Modules without a test file of their name, and the test that covers them.
COVERED_BY = {
    "bench/datasets/aebad_s.py": "bench/datasets/test_datasets.py",
    "bench/datasets/catalogue.py": "bench/datasets/test_datasets.py",
    "bench/datasets/check.py": "bench/datasets/test_datasets.py",
    "bench/datasets/dataset.py": "bench/datasets/test_datasets.py",
    "bench/datasets/listing.py": "bench/datasets/test_datasets.py",
    "bench/datasets/mvtec_ad_2.py": "bench/datasets/test_datasets.py",
    "bench/datasets/mvtec_like.py": "bench/datasets/test_datasets.py",
    "bench/datasets/record.py": "bench/datasets/test_datasets.py",
    "bench/datasets/rendered.py": "bench/plan/test_expand.py",
    "bench/datasets/visa.py": "bench/datasets/test_datasets.py",
    "bench/demo/page.py": "bench/demo/test_comparison.py",
    "bench/plan/contenders.py": "bench/run/test_evaluator.py",
    "bench/plan/unit.py": "bench/run/test_folder.py",
    "bench/report/layout.py": "bench/report/test_measured.py",
    "bench/report/report.py": "cli/test_bench.py",
    "bench/report/table.py": "bench/report/test_measured.py",
    "bench/run/category.py": "bench/run/test_evaluator.py",
    "bench/run/diagnosis.py": "bench/run/test_evaluator.py",
    "bench/run/measure.py": "bench/run/test_evaluator.py",
    "bench/run/pictures.py": "bench/report/test_figures.py",
    "bench/run/row.py": "bench/run/test_folder.py",
    "bench/run/work.py": "bench/run/test_ray_runner.py",
    "bench/run/workplace.py": "bench/run/test_local_runner.py",
    "calibration/calibrate.py": "station/test_station.py",
    "calibration/held_out.py": "station/test_lot.py",
    "calibration/part_statistics.py": "calibration/test_checks.py",
    "calibration/selection.py": "calibration/test_checks.py",
    "cli/console.py": "cli/test_cli.py",
    "cli/demo.py": "bench/demo/test_comparison.py",
    "cli/export.py": "export/test_lot.py",
    "cli/listing.py": "cli/test_cli.py",
    "corrections/ablations.py": "corrections/test_corrections.py",
    "corrections/coral.py": "corrections/test_corrections.py",
    "corrections/normals.py": "corrections/test_corrections.py",
    "detectors/levels.py": "detectors/test_contract.py",
    "detectors/prompts.py": "detectors/test_anomalyclip.py",
    "encoders/aggregate.py": "encoders/test_encoders.py",
    "encoders/bundled.py": "encoders/test_encoders.py",
    "encoders/clip_text.py": "encoders/test_openclip.py",
    "encoders/clip_vision.py": "encoders/test_openclip.py",
    "encoders/spec.py": "encoders/test_encoders.py",
    "encoders/timm.py": "encoders/test_encoders.py",
    "encoders/vv_attention.py": "encoders/test_openclip.py",
    "encoders/weights.py": "encoders/test_encoders.py",
    "errors.py": "repo/test_architecture.py",
    "export/onnx.py": "export/test_lot.py",
    "export/openvino.py": "export/test_lot.py",
    "files/atomic.py": "test_artifacts.py",
    "files/hashing.py": "system/web/test_faults.py",
    "files/json_record.py": "station/test_station.py",
    "files/locks.py": "station/test_station.py",
    "files/versions.py": "station/test_station.py",
    "imaging/camera_format.py": "station/test_station.py",
    "imaging/map_matrices.py": "imaging/test_maps.py",
    "integrations/anomalib/adapters.py": "integrations/anomalib/test_calibrator.py",
    "integrations/anomalib/bank.py": "integrations/anomalib/test_thresholds.py",
    "integrations/anomalib/checkpoint.py": "integrations/anomalib/test_files.py",
    "integrations/anomalib/collector.py": "integrations/anomalib/test_calibrator.py",
    "integrations/anomalib/layers.py": "integrations/anomalib/test_calibrator.py",
    "integrations/anomalib/models.py": "integrations/anomalib/test_refusals.py",
    "integrations/anomalib/passes.py": "integrations/anomalib/test_calibrator.py",
    "integrations/anomalib/verdict.py": "integrations/anomalib/test_thresholds.py",
    "neighbours/_kernel_types.py": "neighbours/test_search.py",
    "neighbours/_kernels.py": "neighbours/test_search.py",
    "neighbours/_points.py": "neighbours/test_compiled.py",
    "rendering/cap.py": "rendering/test_products.py",
    "rendering/cap_damage.py": "rendering/test_products.py",
    "rendering/damage.py": "rendering/test_products.py",
    "rendering/fabric.py": "rendering/test_products.py",
    "rendering/fabric_damage.py": "rendering/test_products.py",
    "rendering/lettering.py": "rendering/test_products.py",
    "rendering/photograph.py": "rendering/test_parts.py",
    "rendering/plate.py": "rendering/test_parts.py",
    "rendering/plate_damage.py": "rendering/test_products.py",
    "rendering/surface.py": "rendering/test_parts.py",
    "server/data/audit.py": "server/data/test_retention.py",
    "server/data/corrections.py": "server/web/test_schema.py",
    "server/data/lots.py": "system/web/test_parts.py",
    "server/data/parts.py": "system/web/test_parts.py",
    "server/data/sessions.py": "server/web/test_security.py",
    "server/data/watch_switch.py": "server/work/test_watching.py",
    "server/refusals.py": "server/data/test_drafts.py",
    "server/web/api/drafts.py": "server/web/test_schema.py",
    "server/web/api/images.py": "server/web/test_schema.py",
    "server/web/api/jobs.py": "server/web/test_schema.py",
    "server/web/api/judge.py": "server/web/test_schema.py",
    "server/web/api/lots.py": "server/web/test_schema.py",
    "server/web/api/models/drafts.py": "server/web/test_schema.py",
    "server/web/api/models/fields.py": "server/web/test_schema.py",
    "server/web/api/models/jobs.py": "server/web/test_schema.py",
    "server/web/api/models/judging.py": "server/web/test_schema.py",
    "server/web/api/models/lots.py": "server/web/test_schema.py",
    "server/web/app.py": "server/web/test_security.py",
    "server/web/complaints.py": "server/web/test_errors.py",
    "server/web/context.py": "server/web/test_security.py",
    "server/work/calibrating.py": "system/web/test_faults.py",
    "server/work/collecting.py": "system/web/test_watch.py",
    "server/work/handlers.py": "server/work/test_judging.py",
    "server/work/loaded.py": "server/work/test_judging.py",
    "server/work/pictures.py": "system/web/test_parts.py",
    "server/work/reporting.py": "server/work/test_worker.py",
    "server/work/supervisor.py": "system/web/test_faults.py",
    "station/cluster.py": "cli/test_station.py",
    "station/features.py": "station/test_station.py",
    "station/fit.py": "station/test_station.py",
    "station/folder.py": "station/test_station.py",
    "station/judged_page.py": "station/test_judged_folder.py",
    "station/lot_name.py": "station/test_station.py",
    "station/lot_record.py": "station/test_lot.py",
    "station/record.py": "station/test_station.py",
    "station/watch.py": "station/test_judged_folder.py",
    "threads.py": "imaging/test_encode.py",
    "types.py": "test_score.py",
}


def test_a_public_name_has_one_meaning():
    homes = defaultdict(list)
    for module, path in MODULES.items():
        for name in public_names(path):
            homes[name].append(module)
    shared = {name: modules for name, modules in homes.items() if len(modules) > 1}
    allowed = DEFINED_TWICE.keys() | STILL_TO_RENAME
    assert {name: modules for name, modules in shared.items() if name not in allowed} == {}
    assert allowed - shared.keys() == set(), "defined once: take it off the list"


def test_files_and_functions_can_be_read_at_one_sitting():
    lines = {module: len(path.read_text(encoding="utf-8").splitlines()) for module, path in MODULES.items()}
    assert {module: count for module, count in lines.items() if count > 300} == {}
    assert median(lines.values()) <= 120
    long = {f"{m}.{name}": count for m, path in MODULES.items() for name, count in functions(path) if count > 50}
    assert long == {}


@pytest.mark.parametrize("module", [name for name in MODULES if MODULES[name].stem not in ("__init__", "__main__")])
def test_a_module_has_a_test_of_its_name(module):
    path = MODULES[module].relative_to(PACKAGE)
    own = TESTS / path.parent / f"test_{path.stem.lstrip('_')}.py"
    if path.as_posix() in COVERED_BY:
        assert not own.is_file(), "has a test of its own: take it off the list"
        own = TESTS / COVERED_BY[path.as_posix()]
    assert own.is_file(), f"{own.relative_to(TESTS)} is missing"


def test_the_list_of_covered_modules_names_modules():
    assert {name for name in COVERED_BY if not (PACKAGE / name).is_file()} == set()
