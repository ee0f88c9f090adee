"""Every constant that the paper or an authors' repository states, with its source, and where the library has it.

A test compares them one by one, so a constant cannot drift from its source unseen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sparcal.bench.metrics import LIMITS
from sparcal.bench.plan.contenders import FEATURES_ENCODER, known_host
from sparcal.bench.plan.experiment import Block
from sparcal.bench.plan.variant import SOURCE_MIXED_WEIGHT
from sparcal.corrections import Coral
from sparcal.detectors import DETECTORS
from sparcal.encoders import parse_spec
from sparcal.encoders.openclip import VV_SHARE
from sparcal.encoders.positions import DINOV2_OFFSET
from sparcal.hosts import HOSTS
from sparcal.sparc import SPARC, saturated_rank

_PATCHCORE = "amazon-science/patchcore-inspection fcaa92f"
_PADIM = "xiahaifeng1995/PaDiM 616004b"
_SPADE = "byungjae89/SPADE-pytorch 077c67b"
_DINO = "dammsi/AnomalyDINO b3435f0"
_DINOV2 = "facebookresearch/dinov2, hub model without registers"
_SUBSPACE = "CLendering/SubspaceAD 2ca687e"
_MUSC = "xrli-U/MuSc b76b93d"
_ANOMALYCLIP = "zqhang/AnomalyCLIP 45ed4dd"
_WINCLIP = "Jeong et al., CVPR 2023"
_RECON = "FzJun26th/FastRecon fcffadb"
_REF = "FastRef, settings of PatchCore+, from published reading notes"
_PAPER = "SPARC paper"


@dataclass(frozen=True)
class Fact:
    """One stated constant.

    Args:
        about: a host, or what else it belongs to.
        ours: the value that the library uses.
    """

    about: str
    what: str
    stated: object
    source: str
    ours: Callable[[], object]


def _detector(host: str, field: str) -> Callable[[], object]:
    return lambda: getattr(DETECTORS[known_host(host).detector](), field)


def _map(host: str, field: str) -> Callable[[], object]:
    return lambda: getattr(DETECTORS[known_host(host).detector]().map_rule, field)


def _encoder(host: str, *names: str) -> Callable[[], object]:
    def read() -> object:
        spec = parse_spec(known_host(host).encoder)
        values = tuple(getattr(spec, name) for name in names)
        return values if len(names) > 1 else values[0]

    return read


def _facts(host: str, source: str, *rows: tuple[str, object, Callable[[], object]]) -> tuple[Fact, ...]:
    return tuple(Fact(host, what, stated, source, ours) for what, stated, ours in rows)


_CROP = ("short", 256, 224)
_GEOMETRY = ("resize", "size", "crop")

FACTS: tuple[Fact, ...] = (
    *_facts(
        "patchcore",
        _PATCHCORE,
        ("weights, torchvision V1", "wide_resnet50_2.tv_in1k", _encoder("patchcore", "model")),
        ("strides of layer2 and layer3", (8, 16), _encoder("patchcore", "layers")),
        ("resize and crop", _CROP, _encoder("patchcore", *_GEOMETRY)),
        ("resampling", "bilinear", _encoder("patchcore", "resample")),
        ("coreset share", 0.1, _detector("patchcore", "coreset")),
        ("projection for the coreset", 128, _detector("patchcore", "dimension")),
        ("start points", 10, _detector("patchcore", "anchors")),
        ("neighbours", 1, _detector("patchcore", "neighbours")),
        ("squared distances", True, _detector("patchcore", "squared")),
        ("no re-weighting of the image score", None, _detector("patchcore", "reweight")),
        ("sigma of the map", 4, _map("patchcore", "sigma")),
    ),
    *_facts(
        "padim",
        _PADIM,
        ("strides of layer1 to layer3", (4, 8, 16), _encoder("padim", "layers")),
        ("nearest-neighbour concatenation", "nearest", _encoder("padim", "aggregate")),
        ("resize and crop", _CROP, _encoder("padim", *_GEOMETRY)),
        ("resampling", "lanczos", _encoder("padim", "resample")),
        ("channels drawn", 550, _detector("padim", "dimension")),
        ("seed of the draw", 1024, _detector("padim", "seed")),
        ("ridge", 0.01, _detector("padim", "ridge")),
        ("sigma of the map", 4, _map("padim", "sigma")),
    ),
    *_facts(
        "spade",
        _SPADE,
        ("strides of layer1 to layer4", (4, 8, 16, 32), _encoder("spade", "layers")),
        ("resize and crop", _CROP, _encoder("spade", *_GEOMETRY)),
        ("resampling", "lanczos", _encoder("spade", "resample")),
        ("nearest images", 5, _detector("spade", "images")),
        ("sigma of the map", 4, _map("spade", "sigma")),
    ),
    *_facts(
        "anomalydino",
        _DINO,
        ("weights", "vit_small_patch14_dinov2.lvd142m", _encoder("anomalydino", "model")),
        ("last block", (11,), _encoder("anomalydino", "layers")),
        ("final LayerNorm", True, _encoder("anomalydino", "norm")),
        ("short side, cut to patches", ("short", 448, 14), _encoder("anomalydino", "resize", "size", "multiple")),
        ("resampling", "bicubic", _encoder("anomalydino", "resample")),
        ("neighbours", 1, _detector("anomalydino", "neighbours")),
        ("share of cells that scores the image", 0.01, _detector("anomalydino", "top")),
        ("mask threshold", 10.0, _detector("anomalydino", "threshold")),
        ("sigma of the map", 4, _map("anomalydino", "sigma")),
        ("size at which the map is smoothed", "native", _map("anomalydino", "at")),
    ),
    *_facts(
        "anomalydino",
        _DINOV2,
        ("position embeddings", "bicubic-offset", _encoder("anomalydino", "positions")),
        ("their offset", 0.1, lambda: DINOV2_OFFSET),
    ),
    *_facts(
        "subspacead",
        _SUBSPACE,
        ("weights", "vit_giant_patch14_reg4_dinov2.lvd142m", _encoder("subspacead", "model")),
        ("blocks averaged, zero-based", (22, 23, 24, 25, 26, 27, 28), _encoder("subspacead", "layers")),
        (
            "blocks averaged on other networks, from the end",
            (-18, -17, -16, -15, -14, -13, -12),
            lambda: HOSTS["subspacead"].recipe.fill(parse_spec("timm:other"), blocks=24).layers,
        ),
        ("no final LayerNorm", False, _encoder("subspacead", "norm")),
        ("squashed input", ("square", 672, None), _encoder("subspacead", *_GEOMETRY)),
        ("explained variance", 0.99, _detector("subspacead", "explained")),
        ("share of pixels that scores the image", 0.01, _detector("subspacead", "top")),
        ("blur", "box3", _map("subspacead", "blur")),
    ),
    *_facts(
        "winclip",
        _WINCLIP,
        ("sides of the windows", (2, 3), _detector("winclip", "windows")),
        ("temperature", 0.07, _detector("winclip", "temperature")),
        ("no smoothing", 0, _map("winclip", "sigma")),
    ),
    Fact("winclip", "encoder, 14 x 14 cells of 768", "ViT-B-16-quickgelu/openai", _PAPER, _encoder("winclip", "model")),
    *_facts(
        "musc",
        _MUSC,
        ("weights", "ViT-L-14-336/openai", _encoder("musc", "model")),
        ("blocks, zero-based", (5, 11, 17, 23), _encoder("musc", "layers")),
        ("squashed input", ("square", 518, None), _encoder("musc", *_GEOMETRY)),
        ("tokens as the blocks leave them", "raw", _encoder("musc", "tokens")),
        ("position embeddings", "bicubic", _encoder("musc", "positions")),
        ("activation at 518 pixels", "plain", _encoder("musc", "gelu")),
        ("neighbourhoods", (1, 3, 5), _detector("musc", "radii")),
        ("share of images averaged", 0.3, _detector("musc", "interval")),
        ("RsCIN neighbours", (1, 2, 3), _detector("musc", "neighbours")),
        ("RsCIN neighbours on VisA", (1, 8, 9), lambda: HOSTS["musc"].dataset_settings["visa"]["neighbours"]),
        ("map upsampled to the corners", "corners", _map("musc", "upsample")),
        ("no smoothing", 0, _map("musc", "sigma")),
    ),
    *(
        fact
        for host in ("anomalyclip-v", "anomalyclip-m")
        for fact in _facts(
            host,
            _ANOMALYCLIP,
            ("weights with QuickGELU", "ViT-L-14-336-quickgelu/openai", _encoder(host, "model")),
            ("squashed input", ("square", 518, None), _encoder(host, *_GEOMETRY)),
            ("layer of the released prompts, zero-based", (23,), _encoder(host, "layers")),
            ("blocks of the local stream", 19, _encoder(host, "vv_blocks")),
            ("tokens after projection", "projected", _encoder(host, "tokens")),
            ("position embeddings", "bilinear", _encoder(host, "positions")),
            ("temperature", 0.07, _detector(host, "temperature")),
            ("sigma of the map", 4, _map(host, "sigma")),
        )
    ),
    Fact("anomalyclip-v", "share of blocks on other networks", 19 / 24, _ANOMALYCLIP, lambda: VV_SHARE),
    *_facts(
        "fastrecon",
        _RECON,
        ("strides of layer2 and layer3", (8, 16), _encoder("fastrecon", "layers")),
        ("3 x 3 means, nearest-neighbour", "pool-nearest", _encoder("fastrecon", "aggregate")),
        ("squashed to 256, crop 224", ("square", 256, 224), _encoder("fastrecon", *_GEOMETRY)),
        ("resampling", "lanczos", _encoder("fastrecon", "resample")),
        ("coreset share (README)", 0.01, _detector("fastrecon", "coreset")),
        ("lambda", 2.0, _detector("fastrecon", "weight")),
        ("sigma of the map", 4, _map("fastrecon", "sigma")),
    ),
    *_facts(
        "fastref",
        _REF,
        ("prototypes, share", 0.05, _detector("fastref", "coreset")),
        ("lambda", 0.3, _detector("fastref", "weight")),
        ("rounds", 2, _detector("fastref", "rounds")),
        ("fewer than 10 Sinkhorn sweeps", 9, _detector("fastref", "iterations")),
    ),
    *_facts(
        "sparc",
        _PAPER,
        ("rank at k = 8 (Eq. 8)", 7, lambda: saturated_rank(None, 8)),
        ("sides corrected", "both", lambda: SPARC().on),
        ("draws", 5, lambda: Block(("rad",), ("patchcore",)).seeds),
        ("calibration size of the main table", (8,), lambda: Block(("rad",), ("patchcore",)).ks),
    ),
    *_facts(
        "controls",
        _PAPER,
        ("CORAL's lambda", 1, lambda: Coral().regularisation),
        ("source images in source-mixed batch norm", 16, lambda: SOURCE_MIXED_WEIGHT),
        ("AU-PRO limits", (0.3, 0.05), lambda: LIMITS),
        ("layers of the diagnostics", (8, 16), lambda: parse_spec(FEATURES_ENCODER).layers),
        ("diagnostics before any pooling", "nearest", lambda: parse_spec(FEATURES_ENCODER).aggregate),
    ),
)
