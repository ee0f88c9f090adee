"""docs/reference/fidelity.md as text: `sparcal bench fidelity` prints it."""

from __future__ import annotations

from collections.abc import Mapping

from sparcal.bench.experiments import experiment_source, experiment_titles
from sparcal.bench.fidelity.accounts import ACCOUNTS, Account
from sparcal.bench.fidelity.facts import FACTS
from sparcal.bench.plan.contenders import FEATURES, known_host
from sparcal.bench.plan.expand import Overrides, plan_units
from sparcal.bench.plan.experiment import parse_experiment
from sparcal.hosts import HOSTS, make_detector

_HEAD = """# Fidelity

Made by `sparcal bench fidelity`; a test keeps this page equal to its output.

For each host: what the paper says, what the authors' code does, what we do, which test compares it, and what could not be
compared. The constants are pinned by `tests/bench/fidelity/test_facts.py`; [hosts.md](hosts.md) lists the deviations alone.
"""
_OTHER = {"sparc": "SPARC", "controls": "Controls, metrics and protocol"}


def fidelity_page() -> str:
    """The whole page in Markdown."""
    parts = [_HEAD, *(_account(name, account) for name, account in ACCOUNTS.items()), _units()]
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _account(name: str, account: Account) -> str:
    title = _OTHER[name] if name in _OTHER else f"{known_host(name).title} (`{name}`)"
    lines = [f"## {title}", "", f"**The paper.** {account.paper}", "", f"**The authors' code.** {account.authors}", ""]
    if name not in _OTHER:
        host = known_host(name)
        lines += [f"**We run.** `{host.encoder}` with `{make_detector(host, {})!r}`.", ""]
    lines += ["**Where we differ.**", ""]
    lines += [f"* {text}" for text in account.deviations] or ["Nowhere beyond what stands above."]
    facts = [fact for fact in FACTS if fact.about == name]
    lines += ["", "| pinned | stated | source |", "|---|---|---|"]
    lines += [f"| {fact.what} | `{fact.stated}` | {fact.source} |" for fact in facts]
    lines += ["", "**Compared by.**", "", *(f"* `{test}`" for test in account.compared), ""]
    return "\n".join([*lines, f"**Not compared.** {account.open}"])


def _units() -> str:
    """Which encoder and settings each host has on each dataset, over all packaged experiments."""
    prompts = {name: host.prompts for name, host in HOSTS.items() if host.prompts}
    used: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for name in experiment_titles():
        experiment = parse_experiment(experiment_source(name), name)
        for unit in plan_units(experiment, {}, Overrides(prompts=prompts, seeds=1)):
            title = unit.host if unit.host == FEATURES else known_host(unit.host).title
            settings = ", ".join(f"{field}={value}" for field, value in unit.settings) or "defaults"
            places = used.setdefault((title, unit.encoder, settings), {})
            names = places.setdefault(unit.dataset, [])
            if name not in names:
                names.append(name)
    lines = [
        "## What each row of the experiments uses",
        "",
        "| host | encoder | settings | dataset: experiments |",
        "|---|---|---|---|",
    ]
    for (title, encoder, settings), places in sorted(used.items()):
        lines.append(f"| {title} | `{encoder}` | {settings} | {_places(places)} |")
    return "\n".join(lines)


def _places(places: Mapping[str, list[str]]) -> str:
    return "; ".join(f"{dataset}: {', '.join(names)}" for dataset, names in places.items())
