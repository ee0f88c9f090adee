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
}

# Tests that cover modules which have no test file of their own name.
COVERS = {
    "cli/test_calibrate.py": ("calibration/defaults",),
    "calibration/test_held_out.py": ("calibration/kept_rows",),
    "bench/datasets/test_datasets.py": (
        *("bench/datasets/aebad_s", "bench/datasets/catalogue", "bench/datasets/dataset"),
        *("bench/datasets/listing", "bench/datasets/mvtec_ad_2", "bench/datasets/mvtec_like", "bench/datasets/visa"),
    ),
    "bench/metrics/test_region_overlap.py": ("bench/metrics/inputs",),
    "bench/demo/test_comparison.py": ("bench/demo/page", "cli/demo"),
    "bench/plan/test_expand.py": ("bench/datasets/rendered", "bench/plan/combinations"),
    "bench/fidelity/test_page.py": ("bench/fidelity/accounts",),
    "bench/report/test_figures.py": ("bench/report/drawing", "bench/report/overview", "bench/run/pictures"),
    "bench/report/test_measured.py": ("bench/report/layout", "bench/report/table"),
    "bench/run/test_evaluator.py": (
        "bench/metrics/paper",
        "bench/run/category",
        "bench/run/diagnosis",
        "bench/run/measure",
    ),
    "bench/run/test_folder.py": ("bench/plan/unit", "bench/run/row"),
    "bench/run/test_local_runner.py": ("bench/run/workplace",),
    "bench/run/test_ray_runner.py": ("bench/run/work",),
    "cli/test_bench.py": ("bench/report/report", "bench/report/used", "cli/bench_run"),
    "calibration/test_checks.py": ("calibration/check",),
    "calibration/test_selection.py": ("calibration/choice",),
    "cli/test_cli.py": ("cli/listing",),
    "corrections/test_contract.py": ("testing/correction_contract",),
    "detectors/test_contract.py": ("testing/detector_contract", "testing/made_features"),
    "encoders/test_compiled.py": ("encoders/traced_graph",),
    "encoders/test_contract.py": ("testing/encoder_contract",),
    "corrections/test_corrections.py": ("corrections/ablations", "corrections/coral", "corrections/normals"),
    "detectors/test_anomalyclip.py": ("detectors/prompts",),
    "encoders/test_encoders.py": (
        *("encoders/aggregate", "encoders/bundled", "encoders/spec", "encoders/timm", "encoders/weights"),
    ),
    "encoders/test_openclip.py": ("encoders/clip_text", "encoders/clip_vision", "encoders/vv_attention"),
    "export/test_lot.py": ("cli/export", "export/onnx", "export/openvino"),
    "imaging/test_maps.py": ("imaging/map_matrices",),
    "integrations/anomalib/test_calibrator.py": (
        *("integrations/anomalib/adapters", "integrations/anomalib/collector", "integrations/anomalib/layers"),
        "integrations/anomalib/passes",
    ),
    "integrations/anomalib/test_detector.py": (
        *("integrations/anomalib/model_station", "integrations/anomalib/reference_state"),
    ),
    "integrations/anomalib/test_files.py": ("integrations/anomalib/checkpoint",),
    "integrations/anomalib/test_refusals.py": ("integrations/anomalib/models", "integrations/anomalib/unchecked"),
    "integrations/anomalib/test_thresholds.py": (
        *("integrations/anomalib/bank", "integrations/anomalib/model_thresholds"),
    ),
    "neighbours/test_coreset.py": ("neighbours/_coreset_kernels",),
    "neighbours/test_search.py": (
        *("neighbours/_distance_kernels", "neighbours/_kernel_types", "neighbours/_search_kernels"),
    ),
    "test_compiled.py": ("neighbours/_points",),
    "rendering/test_line.py": ("cli/parts",),
    "rendering/test_parts.py": (
        *("rendering/lettering", "rendering/photograph", "rendering/plate", "rendering/plate_damage"),
        "rendering/surface",
    ),
    "rendering/test_products.py": (
        *("rendering/cap", "rendering/cap_damage", "rendering/damage", "rendering/fabric", "rendering/fabric_damage"),
    ),
    "server/data/test_again.py": ("server/data/trend",),
    "server/data/test_lot_decisions.py": ("server/data/lots", "server/data/report"),
    "server/data/test_retention.py": ("server/data/audit",),
    "server/web/test_alarm_routes.py": ("server/web/api/alarms", "server/web/api/models/alarms"),
    "server/web/test_schema.py": (
        *("server/web/api/drafts", "server/web/api/images", "server/web/api/jobs", "server/web/api/judge"),
        *("server/web/api/lots", "server/web/api/models/drafts", "server/web/api/models/fields"),
        *("server/web/api/models/jobs", "server/web/api/models/judging", "server/web/api/models/lots"),
        *("server/web/api/models/trend", "server/web/api/trend", "server/web/complaints"),
    ),
    "server/web/test_security.py": ("server/data/sessions", "server/refusals", "server/web/app", "server/web/context"),
    "server/work/test_handlers.py": ("server/data/parts",),
    "server/work/test_watching.py": ("server/data/watch_switch", "server/work/collecting", "server/work/reporting"),
    "station/test_judged_folder.py": ("station/judge_facts",),
    "station/test_calibrating.py": ("station/lot_writing",),
    "station/test_judgement.py": ("station/plots",),
    "station/test_intake.py": ("calibration/station_checks",),
    "station/test_lot.py": ("station/lot_record",),
    "test_plugins.py": ("testing/dataset_contract",),
    "station/test_making.py": ("calibration/asked", "station/given_features"),
    "station/test_station.py": ("station/comparing", "station/features", "station/host_parts", "station/record"),
    "system/web/test_faults.py": (*("server/work/calibrating", "server/work/supervisor"),),
    "system/web/test_parts.py": (*("server/data/corrections", "server/work/pictures"),),
}


def test_a_public_name_has_one_meaning():
    homes = defaultdict(list)
    for module, path in MODULES.items():
        for name in public_names(path):
            homes[name].append(module)
    shared = {name: modules for name, modules in homes.items() if len(modules) > 1}
    assert {name: modules for name, modules in shared.items() if name not in DEFINED_TWICE} == {}
    assert DEFINED_TWICE.keys() - shared.keys() == set(), "defined once: take it off the list"


def test_files_and_functions_can_be_read_at_one_sitting():
    lines = {module: len(path.read_text(encoding="utf-8").splitlines()) for module, path in MODULES.items()}
    assert {module: count for module, count in lines.items() if count > 300} == {}
    assert median(lines.values()) <= 120
    long = {f"{m}.{name}": count for m, path in MODULES.items() for name, count in functions(path) if count > 50}
    assert long == {}


@pytest.mark.parametrize("module", [name for name in MODULES if MODULES[name].stem not in ("__init__", "__main__")])
def test_a_module_has_a_test_of_its_name(module):
    path = MODULES[module].relative_to(PACKAGE)
    own = path.with_name(f"test_{path.stem.lstrip('_')}.py").as_posix()
    listed = [test for test, modules in COVERS.items() if path.with_suffix("").as_posix() in modules]
    assert any((TESTS / test).is_file() for test in (own, *listed)), f"tests/{own} is missing"


def test_the_list_names_what_is_there():
    for test, modules in COVERS.items():
        assert (TESTS / test).is_file(), test
        for module in modules:
            assert (PACKAGE / f"{module}.py").is_file(), module
