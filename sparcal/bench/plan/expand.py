"""Turns an experiment into a list of units, ordered so that neighbours share features and base scores."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from sparcal.bench.datasets import DATASETS, list_categories
from sparcal.bench.datasets.rendered import RENDERED, render_dataset
from sparcal.bench.plan.contenders import resolve_encoder, resolve_settings
from sparcal.bench.plan.experiment import Block, Experiment
from sparcal.bench.plan.unit import BATCHNORM, Unit, hashable_settings
from sparcal.bench.plan.variant import DetectorSettings, Variant
from sparcal.encoders.known_models import require_known_model
from sparcal.encoders.spec import parse_spec, with_runtime
from sparcal.errors import DataError
from sparcal.hosts import HOSTS
from sparcal.runtimes import TORCH, Runtime

DATA_VARIABLE = "SPARCAL_DATA"
ALL = "*"


@dataclass(frozen=True)
class Overrides:
    """What a call changes about an experiment.

    Args:
        encoders, weights: by host, "*" for all.
        prompts: AnomalyCLIP's prompt files, by host.
        categories, seeds: only the first so many; None for all.
        runtime: what computes every encoder; None leaves it to the encoders' names.
    """

    encoders: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[str, str] = field(default_factory=dict)
    prompts: Mapping[str, str] = field(default_factory=dict)
    categories: int | None = None
    seeds: int | None = None
    runtime: Runtime | None = None

    def __str__(self) -> str:
        limits = [
            f"{n} {what}" for n, what in ((self.categories, "categories"), (self.seeds, "seeds")) if n is not None
        ]
        others = [
            f"{what} {dict(value)}" for what, value in (("encoders", self.encoders), ("weights", self.weights)) if value
        ]
        runtime = [] if self.runtime is None else [f"runtime {self.runtime}"]
        return ", ".join([*(f"only the first {limit}" for limit in limits), *others, *runtime])


def plan_units(experiment: Experiment, data: Mapping[str, Path], overrides: Overrides) -> list[Unit]:
    """Every unit of an experiment, each once, with units that share features next to each other.

    Args:
        data: the root of each dataset's copy.
    """
    units = dict.fromkeys(unit for block in experiment.units for unit in _units(experiment, block, data, overrides))
    for encoder in dict.fromkeys(unit.encoder for unit in units):
        require_known_model(parse_spec(encoder))
    datasets, hosts = experiment.datasets, [*dict.fromkeys(host for block in experiment.units for host in block.hosts)]

    def order(unit: Unit) -> tuple[object, ...]:
        shared = (datasets.index(unit.dataset), unit.category, unit.encoder, unit.weights, hosts.index(unit.host))
        return (*shared, unit.setting, unit.k, unit.seed, unit.correction, unit.variant, unit.picture)

    return sorted(units, key=order)


def find_data(experiment: Experiment, given: Mapping[str, Path], cache: Path) -> dict[str, Path]:
    """The folder of each dataset that an experiment needs: the given one, or one below $SPARCAL_DATA.

    Rendered parts are made on the spot.

    Args:
        cache: where rendered parts are kept.
    """
    for name in given:
        if name not in DATASETS:
            raise DataError(f"unknown dataset {name!r}; choose from {', '.join(DATASETS)}.")
    folder = os.environ.get(DATA_VARIABLE)
    roots = {}
    missing = []
    for name in experiment.datasets:
        if name == RENDERED:
            roots[name] = render_dataset(cache, experiment.rendered)
        elif name in given:
            roots[name] = given[name]
        elif folder and (Path(folder) / name).is_dir():
            roots[name] = Path(folder) / name
        else:
            missing.append(name)
    if missing:  # all of them at once: each is a download
        given_as = " ".join(f"--data {name}=FOLDER" for name in missing)
        raise DataError(
            f"The experiment {experiment.name} needs a copy of {', '.join(missing)}, got none: give {given_as}, or set "
            f"{DATA_VARIABLE} to a folder that holds {'it' if len(missing) == 1 else 'them'}; sparcal bench datasets says "
            "where to get a copy."
        )
    return roots


def _units(experiment: Experiment, block: Block, data: Mapping[str, Path], overrides: Overrides) -> Iterator[Unit]:
    for dataset in block.datasets:
        categories = _categories(experiment, block, dataset, data)[: overrides.categories]
        words = product(categories, block.hosts, block.corrections, block.variants, block.ks, _seeds(block, overrides))
        for category, host, correction, variant, k, seed in words:
            changes = Variant.parse(variant)
            given = resolve_settings(host, dataset, experiment.settings.get(host, {}))
            settings = hashable_settings({**dict(given), **dict(changes.settings)})
            encoder = _encoder(experiment, host, dataset, changes, overrides, settings)
            if correction == BATCHNORM and parse_spec(encoder).runtime not in (None, TORCH):
                raise DataError(
                    f"The correction {BATCHNORM} changes the network, which torch alone allows, got {encoder}: leave "
                    "--runtime out."
                )
            yield Unit(
                dataset=dataset,
                category=category,
                host=host,
                correction=correction,
                k=k,
                seed=seed,
                variant=variant,
                encoder=encoder,
                weights=_of(overrides.weights, host),
                prompts=_prompts(host, overrides),
                settings=settings,
                picture=block.pictures and seed == 0,
            )


def _categories(experiment: Experiment, block: Block, dataset: str, data: Mapping[str, Path]) -> tuple[str, ...]:
    if dataset == RENDERED:
        names = experiment.rendered.categories
    else:
        names = DATASETS[dataset].categories or list_categories(dataset, data[dataset])
    if not block.categories:
        return names
    return tuple(name for name in block.categories if name in names)


def _seeds(block: Block, overrides: Overrides) -> range:
    return range(block.seeds if overrides.seeds is None else min(block.seeds, overrides.seeds))


def _encoder(
    experiment: Experiment,
    host: str,
    dataset: str,
    variant: Variant,
    overrides: Overrides,
    settings: DetectorSettings,
) -> str:
    other = _of(overrides.encoders, host)
    if other and variant.backbone:
        raise DataError(
            f"The experiment {experiment.name} compares encoders (backbone={variant.backbone}), so one encoder for "
            f"{host} would make its rows equal, got --encoder {other}: leave --encoder out, or change [backbones] in the file."
        )
    if variant.backbone:
        if variant.backbone not in experiment.backbones:
            known = ", ".join(experiment.backbones) or "none"
            raise DataError(f"The experiment {experiment.name} has no backbone {variant.backbone!r}; it names {known}.")
        other = experiment.backbones[variant.backbone]
    other = other or _of(experiment.encoders, host)
    text = resolve_encoder(host, dataset=dataset, other=other, geometry=variant.geometry, settings=settings)
    return text if overrides.runtime is None else str(with_runtime(parse_spec(text), overrides.runtime))


def _prompts(host: str, overrides: Overrides) -> str:
    if host not in HOSTS or HOSTS[host].prompts is None:
        return ""
    if host not in overrides.prompts:
        raise DataError(
            f"The host {host} needs its learned prompts, got none: give --prompts {host}=FILE with epoch_15.pth of the "
            f"folder {HOSTS[host].prompts} of its authors' repository."
        )
    return overrides.prompts[host]


def _of(choices: Mapping[str, str], host: str) -> str:
    return choices.get(host, choices.get(ALL, ""))
