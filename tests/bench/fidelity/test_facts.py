"""Every constant that the paper or an authors' repository states is the one that the library uses."""

from __future__ import annotations

import pytest

from sparcal.bench.fidelity.facts import FACTS
from sparcal.bench.plan.contenders import QUERY_CONDITIONED
from sparcal.hosts import HOSTS


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: f"{fact.about}: {fact.what}")
def test_a_constant_is_the_stated_one(fact):
    assert fact.ours() == fact.stated, fact.source


def test_every_host_has_facts_and_each_stands_once():
    assert {*HOSTS, *QUERY_CONDITIONED} <= {fact.about for fact in FACTS}
    assert len({(fact.about, fact.what) for fact in FACTS}) == len(FACTS)
    assert all(fact.source for fact in FACTS)
