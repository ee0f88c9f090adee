"""An experiment file: which units are run, and which tables and figures are made of them.

name = "main"
title = "SPARC on nine hosts and four benchmarks"

[[units]]                                   # several blocks may follow each other
datasets = ["mvtec-ad-2", "aebad-s"]
hosts = ["patchcore", "padim"]
corrections = ["sparc"]
variants = [""]                             # see sparcal.bench.plan.variant
ks = [8]
seeds = 5                                   # 0 to 4
categories = ["can"]                        # by default all
pictures = false                            # keep the maps of each category's example image

[encoders]                                  # other encoders than the hosts' own; "*" is for all hosts
[backbones]                                 # the names behind backbone=NAME
[settings.patchcore]                        # fields of a detector
[settings.musc.visa]                        # the same, on one dataset only
[rendered]                                  # what the dataset "rendered" holds, see sparcal.bench.datasets.rendered
[pools]                                     # names for several datasets together
[[tables]]                                  # see sparcal.bench.report.layout
[[figures]]                                 # see sparcal.bench.report.figures
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import product
from typing import Any

from sparcal.bench.datasets import DATASETS
from sparcal.bench.datasets.rendered import RENDERED, Rendering
from sparcal.bench.plan.combinations import check_combination
from sparcal.bench.plan.contenders import FEATURES, NAMES, QUERY_CONDITIONED, known_host, resolve_settings
from sparcal.bench.plan.unit import BATCHNORM
from sparcal.bench.plan.variant import Variant
from sparcal.corrections import CORRECTIONS
from sparcal.errors import DataError
from sparcal.hosts import make_detector
from sparcal.settings import switch, texts, whole_number, whole_numbers

# The paper's groups of benchmarks; within a pool each category weighs the same.
POOLS: dict[str, tuple[str, ...]] = {
    "shift-prone": ("mvtec-ad-2", "aebad-s"),
    "shift-free": ("visa", "rad"),
    "all": ("mvtec-ad-2", "aebad-s", "visa", "rad"),
}
MEAN_OF_DATASETS = "mean-of-datasets"  # each dataset weighs the same


@dataclass(frozen=True)
class Block:
    """A product of datasets, hosts, corrections, variants, calibration sizes and seeds."""

    datasets: tuple[str, ...]
    hosts: tuple[str, ...]
    corrections: tuple[str, ...] = ("sparc",)
    variants: tuple[str, ...] = ("",)
    ks: tuple[int, ...] = (8,)
    seeds: int = 5
    categories: tuple[str, ...] = ()
    pictures: bool = False

    def __post_init__(self) -> None:
        for name in ("datasets", "hosts", "corrections", "variants", "categories"):
            texts(getattr(self, name), f"Block.{name}")
        whole_numbers(self.ks, "Block.ks", some=False)
        whole_number(self.seeds, "Block.seeds")
        switch(self.pictures, "Block.pictures")
        _known("dataset", self.datasets, (*DATASETS, RENDERED))
        _known("host", self.hosts, NAMES)
        _known("correction", self.corrections, (*CORRECTIONS, BATCHNORM))
        if self.seeds < 1 or not self.ks or min(self.ks) < 2:
            raise DataError(f"An experiment needs k of 2 or more and at least 1 seed, got {self.ks} and {self.seeds}.")
        wrong = [host for host in self.hosts if host in QUERY_CONDITIONED and self.corrections != ("identity",)]
        if wrong:
            raise DataError(
                f"{wrong[0]} calibrates itself, so its correction must be identity, got {self.corrections}."
            )
        if FEATURES in self.hosts and self.corrections != ("sparc",):
            raise DataError(f"The host {FEATURES} diagnoses sparc, got {', '.join(self.corrections)}: use sparc.")
        for host, correction, text in product(self.hosts, self.corrections, self.variants):
            variant = Variant.parse(text)
            check_combination(host, correction, variant)
            if variant.settings:
                make_detector(known_host(host), dict(variant.settings))


@dataclass(frozen=True)
class Experiment:
    """A parsed experiment file; the report reads `tables` and `figures`."""

    name: str
    title: str
    units: tuple[Block, ...]
    encoders: Mapping[str, str] = field(default_factory=dict)
    backbones: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    rendered: Rendering = field(default_factory=Rendering)
    pools: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tables: tuple[Mapping[str, Any], ...] = ()
    figures: tuple[Mapping[str, Any], ...] = ()

    def __post_init__(self) -> None:
        for host, settings in self.settings.items():
            if host not in self.hosts or host == FEATURES:
                raise DataError(
                    f"[settings.{host}] must be about a host of the experiment {self.name}, which has "
                    f"{', '.join(self.hosts)}: take it out."
                )
            unknown = [
                name for name, value in settings.items() if isinstance(value, Mapping) and name not in self.datasets
            ]
            if unknown:
                raise DataError(
                    f"[settings.{host}.{unknown[0]}] must be about a dataset of the experiment {self.name}, which has "
                    f"{', '.join(self.datasets)}: take it out."
                )
            for dataset in self.datasets:
                make_detector(known_host(host), dict(resolve_settings(host, dataset, settings)))

    @property
    def datasets(self) -> tuple[str, ...]:
        """Every dataset that some unit needs, in order."""
        return tuple(dict.fromkeys(name for block in self.units for name in block.datasets))

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every host that takes part, in order."""
        return tuple(dict.fromkeys(name for block in self.units for name in block.hosts))

    @property
    def variants(self) -> tuple[str, ...]:
        """Every variant, in order."""
        return tuple(dict.fromkeys(name for block in self.units for name in block.variants))

    def pool(self, name: str) -> tuple[str, ...]:
        """The datasets behind a dataset's or a pool's name."""
        if name == MEAN_OF_DATASETS:
            return self.datasets
        return {**POOLS, **self.pools}.get(name, (name,))


def parse_experiment(text: str, source: str) -> Experiment:
    """Read an experiment from its TOML text.

    Args:
        source: what to call it in a refusal.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"The experiment {source} must be TOML, got a mistake: {error}.") from error
    _check_keys(data, Experiment, source)
    for name in ("name", "title", "units"):
        if not data.get(name):
            raise DataError(f"The experiment {source} must give {name}, got none: see docs/reference/benchmark.md.")
    try:
        return Experiment(
            **{
                **data,
                "units": tuple(_block(block, source) for block in data["units"]),
                "rendered": _rendering(data.get("rendered", {}), source),
                "pools": {name: tuple(members) for name, members in data.get("pools", {}).items()},
                "tables": tuple(data.get("tables", ())),
                "figures": tuple(data.get("figures", ())),
            }
        )
    except TypeError as error:
        raise DataError(f"The experiment {source} cannot be read: {error}.") from error


def _block(data: Mapping[str, Any], source: str) -> Block:
    _check_keys(data, Block, f"{source}, [[units]]")
    for name in ("datasets", "hosts"):
        if not data.get(name):
            raise DataError(f"The experiment {source} must give {name} in each [[units]], got none: name at least one.")
    return Block(**_tuples(data))


def _rendering(data: Mapping[str, Any], source: str) -> Rendering:
    _check_keys(data, Rendering, f"{source}, [rendered]")
    return Rendering(**_tuples(data))


def _tuples(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}


def _check_keys(data: Mapping[str, Any], kind: type, source: str) -> None:
    known = [f.name for f in fields(kind)]
    for name in data:
        if name not in known:
            raise DataError(f"The experiment {source} has no key {name!r}; choose from {', '.join(known)}.")


def _known(what: str, names: Sequence[str], choices: Sequence[str]) -> None:
    for name in names:
        if name not in choices:
            raise DataError(f"unknown {what} {name!r}; choose from {', '.join(choices)}.")
