"""The fidelity page: made by its command, complete, and true about the tests it names."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from sparcal.bench.fidelity.accounts import ACCOUNTS
from sparcal.bench.fidelity.facts import FACTS
from sparcal.bench.fidelity.page import fidelity_page
from sparcal.bench.plan.contenders import QUERY_CONDITIONED
from sparcal.cli import run
from sparcal.hosts import HOSTS

ROOT = Path(__file__).parents[3]


def test_every_host_has_an_account_and_every_fact_a_place():
    assert {*HOSTS, *QUERY_CONDITIONED, "sparc", "controls"} == set(ACCOUNTS)
    assert {fact.about for fact in FACTS} == set(ACCOUNTS)


@pytest.mark.parametrize("name", ACCOUNTS)
def test_the_tests_it_names_exist(name):
    for test in ACCOUNTS[name].compared:
        file, _, function = test.partition("::")
        names = {node.name for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef)}
        assert function in names, test


def test_every_deviation_has_a_reason_and_stands_in_the_hosts_page():
    page = " ".join((ROOT / "docs" / "reference" / "hosts.md").read_text().split())
    for account in ACCOUNTS.values():
        for text in account.deviations:
            assert " because " in text or "cannot read" in text
            assert text in page


def test_the_page_is_what_the_command_prints(capsys):
    assert run(["bench", "fidelity"]) == 0
    assert capsys.readouterr().out == fidelity_page()
    assert (ROOT / "docs" / "reference" / "fidelity.md").read_text() == fidelity_page()


def test_it_says_what_could_not_be_compared():
    assert fidelity_page().count("**Not compared.**") == len(ACCOUNTS)
    assert "no number of the paper has been reproduced" in fidelity_page()
