"""`sparcal hosts`, `encoders`, `detectors` and `corrections`: what sparcal offers."""

from __future__ import annotations

import typer

from sparcal.cli.console import print_json, print_table, say
from sparcal.cli.options import Json
from sparcal.errors import DataError
from sparcal.plugins import ENCODER_GROUP, load_plugin, plugin_packages


def register(app: typer.Typer) -> None:
    """Add the four commands."""
    for command in (hosts, encoders, detectors, corrections):
        app.command()(command)


def hosts(as_json: Json = False) -> None:
    """The detector configurations of the paper's main table."""
    from sparcal.hosts import HOSTS, OWN_HOSTS

    rows = [
        {"name": host.name, "encoder": host.encoder, "detector": host.detector, "family": host.family}
        for host in HOSTS.values()
    ]
    _show(_with_packages(rows, plugin_packages("sparcal.hosts", OWN_HOSTS)), as_json)


def encoders(as_json: Json = False) -> None:
    """The forms that an encoder's name can take."""
    rows = [
        {
            "name": "bundled",
            "weights": "installed with sparcal",
            "what": "EfficientNet-Lite0, ImageNet; needs no hub",
        },
        {
            "name": "timm:MODEL.TAG",
            "weights": "--weights FILE, $SPARCAL_WEIGHTS, or the hub",
            "what": "any timm network, e.g. timm:wide_resnet50_2.tv_in1k, timm:vit_small_patch14_dinov2.lvd142m",
        },
        {
            "name": "openclip:MODEL/TAG",
            "weights": "--weights FILE, $SPARCAL_WEIGHTS, or the hub",
            "what": "any open_clip network, e.g. openclip:ViT-B-16-quickgelu/openai",
        },
    ]
    for name, package in plugin_packages(ENCODER_GROUP).items():
        try:
            what = _first_sentence(load_plugin(ENCODER_GROUP, name))
        except DataError as error:
            say(f"Warning: {error}")
            continue
        rows.append({"name": f"{name}:MODEL", "weights": "--weights FILE", "what": what, "package": package})
    _show(rows, as_json)


def detectors(as_json: Json = False) -> None:
    """The frozen scoring rules."""
    from sparcal.detectors import DETECTORS, OWN_DETECTORS, detector_facts

    rows = []
    for name, kind in sorted(DETECTORS.items()):
        facts = detector_facts(name)
        exports = "yes" if facts.exportable else "no"
        rows.append({"name": name, "family": facts.family, "export": exports, "what": _first_sentence(kind)})
    _show(_with_packages(rows, plugin_packages("sparcal.detectors", OWN_DETECTORS)), as_json)


def corrections(as_json: Json = False) -> None:
    """What may change the features between encoder and detector."""
    from sparcal.corrections import CORRECTIONS, OWN_CORRECTIONS

    rows = []
    for name, entry in CORRECTIONS.items():
        settings = ", ".join(f"{field}={value!r}" for field, value in entry.settings.items())
        removes = entry.removes or "nothing"
        what = {"removes": removes, "what": _first_sentence(entry.kind)}
        rows.append({"name": name, "settings": settings, "title": entry.title, **what})
    _show(_with_packages(rows, plugin_packages("sparcal.corrections", OWN_CORRECTIONS)), as_json)


def _with_packages(rows: list[dict[str, str]], packages: dict[str, str]) -> list[dict[str, str]]:
    """The rows, those of plug-ins with the package that brings them; what comes with sparcal needs no such word."""
    return [{**row, "package": packages[row["name"]]} if row["name"] in packages else row for row in rows]


def _first_sentence(kind: object) -> str:
    text = " ".join((kind.__doc__ or "").split("\n\n")[0].split())
    return text.rstrip(".")


def _show(rows: list[dict[str, str]], as_json: bool) -> None:
    if as_json:
        print_json(rows)
    else:
        print_table(rows, columns=list(dict.fromkeys(name for row in rows for name in row)))
