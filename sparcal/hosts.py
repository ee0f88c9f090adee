"""The nine detector configurations of the paper's main table, as data: which encoder, which detector, which settings.

`encoder` is the paper's own. A host also runs on any other encoder: what its text leaves open (layers, aggregation,
geometry) is then taken from the host's recipe. Other packages add hosts as plug-ins (`sparcal.plugins`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, get_args

import torch

from sparcal.devices import AUTO_DEVICE
from sparcal.encoders import Recipe, load_encoder, parse_spec
from sparcal.encoders.compiled import torch_encoder
from sparcal.encoders.spec import ComputePrecision
from sparcal.errors import DataError
from sparcal.plugins import plugins
from sparcal.settings import file_path, instance_of, mapping, one_of, text
from sparcal.types import Detector, Encoder, Family

if TYPE_CHECKING:
    HOSTS: dict[str, Host]


@dataclass(frozen=True)
class Host:
    """A detector with the encoder, layers and geometry that its authors, or the paper, give it.

    Args:
        name: as on the command line.
        title: as in the paper's tables.
        encoder: the paper's encoder, with nothing left open.
        recipe: settings for another encoder than the paper's.
        settings: fields of the detector that differ from its defaults.
        dataset_settings: fields that the authors set differently on a benchmark, by the benchmark's name.
        prompts: the folder of learned prompts that the host was published with, where it needs one.
    """

    name: str
    title: str
    family: Family
    detector: str
    encoder: str
    recipe: Recipe = Recipe()
    settings: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    dataset_settings: Mapping[str, Mapping[str, object]] = field(default_factory=lambda: MappingProxyType({}))
    prompts: str | None = None

    def __post_init__(self) -> None:
        for name in ("name", "title", "detector", "encoder"):
            text(getattr(self, name), f"Host.{name}")
        parse_spec(self.encoder)
        one_of(self.family, "Host.family", get_args(Family))
        instance_of(self.recipe, "Host.recipe", Recipe)
        mapping(self.settings, "Host.settings")
        mapping(self.dataset_settings, "Host.dataset_settings")
        for name, settings in self.dataset_settings.items():
            mapping(settings, f"Host.dataset_settings[{name!r}]")
        text(self.prompts, "Host.prompts", optional=True)


_WRN = "timm:wide_resnet50_2.tv_in1k"
_CROP = "resize=short&size=256&crop=224"

OWN_HOSTS: dict[str, Host] = {
    host.name: host
    for host in (
        Host(
            name="patchcore",
            title="PatchCore",
            family="reference",
            detector="patchcore",
            encoder=f"{_WRN}?layers=8,16&aggregate=patchcore&{_CROP}&resample=bilinear",
        ),
        Host(
            name="padim",
            title="PaDiM",
            family="reference",
            detector="padim",
            encoder=f"{_WRN}?layers=4,8,16&aggregate=nearest&{_CROP}&resample=lanczos",
            recipe=Recipe("layers=4,8,16&aggregate=nearest", "aggregate=nearest"),
        ),
        Host(
            name="spade",
            title="SPADE",
            family="reference",
            detector="spade",
            encoder=f"{_WRN}?layers=4,8,16,32&aggregate=levels&{_CROP}&resample=lanczos",
            recipe=Recipe("layers=4,8,16,32&aggregate=levels", "aggregate=levels"),
        ),
        Host(
            name="anomalydino",
            title="AnomalyDINO",
            family="reference",
            detector="anomalydino",
            encoder="timm:vit_small_patch14_dinov2.lvd142m?layers=11&aggregate=levels&norm=1"
            "&resize=short&size=448&multiple=14&resample=bicubic&positions=bicubic-offset",
            recipe=Recipe(blocks="layers=-1&aggregate=levels&norm=1"),
        ),
        Host(
            name="subspacead",
            title="SubspaceAD",
            family="reference",
            detector="subspacead",
            encoder="timm:vit_giant_patch14_reg4_dinov2.lvd142m?layers=22,23,24,25,26,27,28&aggregate=mean&norm=0"
            "&resize=square&size=672&resample=bicubic",
            # The authors' script counts from the end, whatever the network; it cannot read one of fewer than 18 blocks.
            recipe=Recipe(
                blocks="layers=-18,-17,-16,-15,-14,-13,-12&aggregate=mean&norm=0",
                few_blocks="layers=-6,-5,-4,-3&aggregate=mean&norm=0",
            ),
        ),
        # Short side and crop, as CLIP's own preprocessing has it: on 4:1 images the paper's WinCLIP localises like the
        # hosts that crop (docs/reference/hosts.md).
        Host(
            name="winclip",
            title="WinCLIP",
            family="reference",
            detector="winclip",
            encoder="openclip:ViT-B-16-quickgelu/openai?layers=11&aggregate=levels"
            "&resize=short&size=224&crop=224&resample=bicubic&tokens=ln_post",
            recipe=Recipe(blocks="layers=-1&aggregate=levels&norm=1"),
        ),
        Host(
            name="musc",
            title="MuSc",
            family="mutual",
            detector="musc",
            encoder="openclip:ViT-L-14-336/openai?layers=5,11,17,23&aggregate=levels&cls=1"
            "&resize=square&size=518&resample=bicubic&tokens=raw&positions=bicubic&gelu=plain",
            recipe=Recipe("layers=8,16&aggregate=pool&cls=1", "aggregate=levels&norm=0&cls=1"),
            dataset_settings={"visa": {"neighbours": (1, 8, 9)}},  # the authors' k_list; (1, 2, 3) everywhere else
        ),
        *(
            Host(
                name=f"anomalyclip-{letter.lower()}",
                title=f"AnomalyCLIP {letter}",
                family="cls",
                detector="anomalyclip",
                encoder="openclip:ViT-L-14-336-quickgelu/openai?layers=23&aggregate=levels&cls=1"
                "&resize=square&size=518&resample=bicubic&tokens=projected&positions=bilinear&path=vv&vv_blocks=19",
                recipe=Recipe(blocks="layers=-1&aggregate=levels&tokens=projected&path=vv&cls=1"),
                prompts=folder,
            )
            # The paper calls its prompt sets by training data; its numbers match the folders the other way round.
            for letter, folder in (("V", "9_12_4_multiscale_visa"), ("M", "9_12_4_multiscale"))
        ),
    )
}


def __getattr__(name: str) -> object:
    """HOSTS, made when it is first used: a plug-in may import this module to describe itself."""
    if name != "HOSTS":
        raise AttributeError(f"module 'sparcal.hosts' has no attribute {name!r}")
    joined = plugins("sparcal.hosts", OWN_HOSTS, _accepted)
    made = OWN_HOSTS | {title: replace(host, name=title) for title, host in joined.items()}
    globals()[name] = made
    return made


def _accepted(entry: object) -> Host:
    from sparcal.detectors import DETECTORS

    if not isinstance(entry, Host):
        raise DataError(f"a {type(entry).__name__} instead of a Host")
    if entry.detector not in DETECTORS:
        raise DataError(f"a Host of the unknown detector {entry.detector!r}")
    return entry


def load_host(  # noqa: PLR0913
    name: str,
    *,
    encoder: str | None = None,
    weights: str | Path | None = None,
    prompts: str | Path | None = None,
    category: str | None = None,
    settings: Mapping[str, object] | None = None,
    device: str | torch.device = AUTO_DEVICE,
    precision: ComputePrecision | None = None,
    runtime: str | None = None,
) -> tuple[Encoder, Detector]:
    """The encoder and the unfitted detector of a host, ready for `encode` and `score_lot`.

    Args:
        encoder: another encoder than the paper's, for instance "bundled".
        weights: a local weight file for the encoder.
        prompts: the learned prompt file of AnomalyCLIP.
        category: what the images show, in words; gives WinCLIP its texts, which its default mode does not need.
        settings: fields of the detector, by name; the encoder follows what they need.
        device: where encoder and detector compute; as in `load_encoder`, like `precision` and `runtime`.

    >>> encoder, detector = load_host("patchcore", encoder="bundled", settings={"coreset": 0.25})
    >>> type(detector).__name__, detector.coreset
    ('PatchCore', 0.25)
    """
    text(encoder, "encoder", optional=True, hint="name it, or load it with load_encoder")
    file_path(prompts, "prompts", optional=True)
    text(category, "category", optional=True)
    if settings is not None:
        mapping(settings, "settings")
    return build_host(
        find_host(name),
        encoder=encoder,
        weights=weights,
        prompts=prompts,
        category=category,
        settings=settings,
        device=device,
        precision=precision,
        runtime=runtime,
    )


def build_host(  # noqa: PLR0913
    host: Host,
    *,
    encoder: str | None,
    weights: str | Path | None,
    prompts: str | Path | None,
    category: str | None,
    settings: Mapping[str, object] | None,
    device: str | torch.device = AUTO_DEVICE,
    precision: ComputePrecision | None = None,
    runtime: str | None = None,
) -> tuple[Encoder, Detector]:
    """As `load_host`, for a host that need not be one of the nine."""
    from sparcal.detectors import for_cell_pixels

    if (prompts is None) != (host.prompts is None):
        needs = f"the prompt file of the folder {host.prompts}" if host.prompts else "no prompt file"
        raise DataError(
            f"The host {host.name} takes {needs}, got {prompts or 'none'}: set --prompts (prompts= in Python)."
        )
    detector = make_detector(host, settings or {})
    words = encoder_for(detector, encoder or host.encoder)
    loaded = load_encoder(
        words, weights=weights, recipe=host.recipe, device=device, precision=precision, runtime=runtime
    )
    detector = for_cell_pixels(detector, loaded.cell_pixels)
    return loaded, _with_texts(detector, torch_encoder(loaded), prompts=prompts, category=category)


def make_detector(host: Host, settings: Mapping[str, object]) -> Detector:
    """The unfitted detector of a host with some of its fields set."""
    from sparcal.detectors import DETECTORS

    kind = DETECTORS[host.detector]
    defaults = {f.name: f.default for f in fields(kind) if f.init and f.name != "map_rule"}  # type: ignore[arg-type]
    values = dict(host.settings)
    for name, value in settings.items():
        if name not in defaults:
            raise DataError(f"The host {host.name} has no setting {name!r}; choose from {', '.join(defaults)}.")
        several = isinstance(defaults[name], tuple) and not isinstance(value, tuple)
        values[name] = (value,) if several else value
    return kind(**values)


def encoder_for(detector: Detector, encoder: str) -> str:
    """The encoder's text with what the detector's settings need of it: windows for most modes of WinCLIP."""
    from sparcal.detectors import WinCLIP

    if not isinstance(detector, WinCLIP) or not detector.encoder_words:
        return encoder
    needed, spec = parse_spec(f"openclip:any?{detector.encoder_words}"), parse_spec(encoder)
    return str(replace(spec, **{name: getattr(needed, name) for name in ("cls", "windows", "windows_in")}))


def find_host(name: str) -> Host:
    """The host of that name."""
    from sparcal.hosts import HOSTS

    text(name, "A host's name", hint=f"choose from {', '.join(HOSTS)}")
    if name not in HOSTS:
        raise DataError(f"There is no host {name!r}; choose from {', '.join(HOSTS)}.")
    return HOSTS[name]


def _with_texts(detector: Detector, encoder: Encoder, *, prompts: str | Path | None, category: str | None) -> Detector:
    """The detector with the text vectors it scores by, where it has any."""
    from sparcal.detectors import AnomalyCLIP, WinCLIP

    if prompts is None and category is None:
        return detector
    from sparcal.detectors.prompts import text_prototypes
    from sparcal.encoders.openclip import OpenClipEncoder

    if not isinstance(encoder, OpenClipEncoder):
        raise DataError(f"Texts need an openclip encoder, got {encoder.id}: choose one with --encoder openclip:....")
    if isinstance(detector, AnomalyCLIP) and prompts is not None:
        return detector.with_prompts(encoder, prompts)
    if isinstance(detector, WinCLIP) and category is not None:
        return detector.with_text(text_prototypes(encoder, category))
    return detector
