"""One version everywhere, a changelog that can be released, and hosted checks that are the same as the local ones."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import sparcal
from release.changelog import cited_version, complaints

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
TESTED_EXTRAS = ("clip", "bench", "notebook", "ray", "server", "export")
CHANGELOG = """# Changelog

## Unreleased

## 0.2.0 - 2026-02-01

### Added

- More.

## 0.1.0 - 2026-01-01

### Added

- Everything.
"""


def test_the_version_has_one_source():
    assert "version" not in PROJECT["project"]
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "sparcal/__init__.py"


def test_the_citation_names_the_version():
    assert cited_version((ROOT / "CITATION.cff").read_text()) == sparcal.__version__


def test_the_changelog_has_nothing_to_complain_of():
    assert complaints((ROOT / "CHANGELOG.md").read_text(), sparcal.__version__) == []


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("## 0.2.0 - 2026-02-01", "## 0.2.0", "The section '0.2.0' is neither 'Unreleased' nor '1.2.3 - YYYY-MM-DD'."),
        ("- More.", "", "The section '0.2.0 - 2026-02-01' is empty."),
        ("### Added", "### News", "The section '0.2.0 - 2026-02-01' is about 'News', which is none of Added, Changed"),
        ("## 0.2.0", "## 0.0.9", "The releases do not stand newest first, each once."),
        ("## 0.2.0", "## 0.3.0", "The changelog has 0.3.0, which is newer than sparcal 0.2.0."),
        ("Everything.\n", "Everything.\n\n## Unreleased\n", "'Unreleased' does not stand on top."),
    ],
)
def test_a_changelog_that_is_wrong_is_told_so(old, new, sentence):
    text = CHANGELOG if "Everything" not in old else CHANGELOG.replace("## Unreleased\n\n", "")
    assert [found for found in complaints(text.replace(old, new), "0.2.0") if found.startswith(sentence)]


def test_a_release_needs_its_tag_and_its_section():
    ready = CHANGELOG.replace("## Unreleased\n\n", "")
    assert complaints(ready, "0.2.0", "v0.2.0") == []
    assert complaints(ready, "0.2.0", "v0.3.0") == [
        "The tag of sparcal 0.2.0 is v0.2.0, got v0.3.0: set sparcal.__version__ or the tag."
    ]
    assert complaints(CHANGELOG, "0.2.0", "v0.2.0") == [
        "The first section of a release is '0.2.0 - YYYY-MM-DD', got 'Unreleased'."
    ]


def steps(workflow):
    return [step for job in yaml.safe_load(workflow.read_text())["jobs"].values() for step in job["steps"]]


def targets(commands):
    return [re.fullmatch(r"make ([\w-]+)", command).group(1) for command in commands]


def test_hosted_checks_are_the_local_ones():
    """Every hosted step is one target of the Makefile, and every target of .ci/run is hosted."""
    there = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    for workflow in WORKFLOWS:
        assert set(targets(step["run"] for step in steps(workflow) if "run" in step)) <= there, workflow.name
    local = targets(re.findall(r"^make .*$", (ROOT / ".ci/run").read_text(), re.M))
    hosted = targets(step["run"] for step in steps(ROOT / ".github/workflows/checks.yml") if "run" in step)
    assert local
    assert set(local) <= set(hosted)
    assert {"test-lowest", "test-highest", "release-check"} <= set(hosted)


def test_hooks_call_what_make_lint_calls():
    """Before a commit or a push the same tools look at the same folders; ruff gets the files that were changed."""
    [repository] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    hooks = {hook["id"]: hook["entry"] for hook in repository["hooks"]}
    makefile = (ROOT / "Makefile").read_text()
    linted = re.search(r"^lint:.*\n((?:\t.*\n)+)", makefile, re.M).group(1).replace("$(BIN)", ".venv/bin")
    assert hooks["mypy"] in [line.strip() for line in linted.splitlines()]
    assert all(hooks[name].removesuffix(" --fix") in linted for name in ("ruff-check", "ruff-format"))


def test_the_hosted_pythons_are_the_promised_ones():
    promised = {line.rsplit(" ", 1)[1] for line in PROJECT["project"]["classifiers"] if "Python :: 3." in line}
    jobs = yaml.safe_load((ROOT / ".github/workflows/checks.yml").read_text())["jobs"]
    assert set(jobs["test"]["strategy"]["matrix"]["python"]) == promised
    assert f">={min(promised, key=Version)}" == PROJECT["project"]["requires-python"]


def test_only_the_publishing_job_may_ask_for_an_identity():
    for workflow in WORKFLOWS:
        content = yaml.safe_load(workflow.read_text())
        assert content["permissions"] == {"contents": "read"}
        trusted = [name for name, job in content["jobs"].items() if "permissions" in job]
        assert trusted == (["publish"] if workflow.stem == "release" else [])
        assert "secrets." not in workflow.read_text()


def test_the_lowest_versions_are_the_lower_bounds():
    """What `make test-lowest` runs on is what pyproject.toml promises, so a bound cannot be lower than what is tested."""
    extras = PROJECT["project"]["optional-dependencies"]
    ours = [*PROJECT["project"]["dependencies"], *(line for name in TESTED_EXTRAS for line in extras[name])]
    pins = {}
    for line in (ROOT / "constraints-lowest.txt").read_text().splitlines():
        if not line.startswith("#"):
            pin = Requirement(line)
            pins[canonicalize_name(pin.name)] = Version(str(pin.specifier).removeprefix("=="))
    for needed in map(Requirement, ours):
        bound = Version(str(needed.specifier).removeprefix(">="))
        assert bound == pins[canonicalize_name(needed.name)], needed


def test_every_extra_of_the_product_but_anomalib_has_its_lower_bounds_tested():
    assert set(PROJECT["project"]["optional-dependencies"]) - {"dev", "docs", "anomalib"} == set(TESTED_EXTRAS)
    assert f"PRODUCT := {','.join(TESTED_EXTRAS)}\n" in (ROOT / "Makefile").read_text()
