"""The tables of `speed.studies.evidence`: what was taken and what it is worth, how the goals fare, hidden bad parts."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np


def tables(rows: list[dict[str, Any]]) -> str:
    """What was taken and what it is worth; how the goals fare; hidden bad parts."""
    lots = [row for row in rows if "taken" in row]
    hidden = [row for row in rows if "bad" in row]
    judged = [_choices(lots), _goals(lots)] if lots else []
    return "\n\n".join([*judged, _hidden(hidden)] if hidden else judged)


def _choices(lots: list[dict[str, Any]]) -> str:
    lines = [
        "| host | lot | k | taken | AUROC (best, own) | AU-PRO (own) | found | foretold | planted found (before) | good rejected |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in lots:
        (area, pro), worth = row["worth"][row["taken"]], row["worth"].values()
        own = row["worth"]["identity"]
        lines.append(
            f"| {row['host']} | {row['case']} | {row['k']} | {row['taken']} | {area:.1f} ({max(a for a, _ in worth):.1f}, "
            f"{own[0]:.1f}) | {pro:.1f} ({own[1]:.1f}) | {row['found']:.0%} | {row['foretold']:.0%} | "
            f"{row['planted_found']:.0%} ({row['planted_before']:.0%}) | {row['rejected']:.0%} |"
        )
    return "\n".join(lines)


def _goals(lots: list[dict[str, Any]]) -> str:
    lines = [
        "| lots | n | regret mean, worst | under lamps shown | without hindsight | below own, worst | foretold - truly found: mean absolute, mean "
        "| by size alone | planted - truly found | good rejected: mean, worst | under lamps shown | above their bound |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in lots:
        for name in ("all", f"k = {row['k']}", row["host"], row["product"], row["case"].split(", ", 1)[-1]):
            groups[name].append(row)
    for name, group in groups.items():
        area = np.array([row["worth"][row["taken"]][0] for row in group])
        best = np.array([max(a for a, _ in row["worth"].values()) for row in group])
        own = np.array([row["worth"]["identity"][0] for row in group])
        known = np.array([max(row["worth_shown"].values()) - row["worth_shown"][row["taken"]] for row in group])
        gaps = " | ".join(
            _gap([row[by] - row["found"] for row in group]) for by in ("foretold", "foretold_size", "planted_found")
        )
        rejected = np.array([row["rejected"] for row in group])
        halves = np.array([row["regret_halves"] for row in group])
        shown = np.array([row["rejected_shown"] for row in group if row["rejected_shown"] is not None])
        above = sum(row["rejected"] > row["ceiling"] for row in group)
        lines.append(
            f"| {name} | {len(group)} | {(best - area).mean():.1f}, {(best - area).max():.1f} | "
            f"{known.mean():.1f}, {known.max():.1f} | "
            f"{halves.mean():.1f}, {halves.max():.1f} | {(own - area).max():.1f} | {gaps} | "
            f"{rejected.mean():.1%}, {rejected.max():.0%} | {shown.mean():.1%}, {shown.max():.0%} | {above} |"
        )
    return "\n".join(lines)


def _gap(differences: list[float]) -> str:
    """How far forecasts lie from the truth: mean absolute, and mean."""
    return f"{np.abs(differences).mean():.1%}, {np.mean(differences):+.1%}"


def _hidden(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| host | lots | with a bad part | named | named or pointed out | good parts accused in lots |",
        "|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["host"], row["case"]].append(row)
    for (host, name), group in groups.items():
        bad = [row for row in group if row["bad"]]
        lines.append(
            f"| {host} | {name} | {len(bad)} | {sum(row['named'] for row in bad)} | {sum(row['pointed'] for row in bad)} | "
            f"{sum(row['accused'] for row in group)} in {len(group)} |"
        )
    return "\n".join(lines)
