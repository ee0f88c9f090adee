"""The text form of an encoder: `source:model?layers=8,16&aggregate=pool&size=256&...`, one line for everything that decides the features.

What a text leaves out is filled in from a recipe (a host's wishes) or from the model's own defaults; the `id` of a
loaded encoder has nothing left out, so equal ids mean equal features.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import parse_qsl

from sparcal.errors import DataError, EncoderNameError, WeightsError
from sparcal.imaging.preprocess import Preprocess, Resample, Resize
from sparcal.plugins import ENCODER_GROUP, plugin_packages
from sparcal.runtimes import TORCH, Runtime
from sparcal.settings import file_path, one_of, switch, text, whole_number, whole_numbers

Aggregate = Literal["pool", "pool-nearest", "patchcore", "nearest", "levels", "mean"]
Tokens = Literal["raw", "ln_post", "projected"]
Gelu = Literal["quick", "plain"]
ComputePrecision = Literal["float32", "bfloat16", "float16"]
Positions = Literal["bicubic-antialias", "bicubic", "bilinear", "bicubic-offset"]
TokenPath = Literal["standard", "vv"]
WindowsIn = Literal["levels", "cls"]
RANDOM_WEIGHTS = "random:"  # in the place of a weight file; a seed follows
SOURCES = ("bundled", "timm", "openclip")
CLIP_ONLY = ("tokens", "gelu", "path", "vv_blocks", "windows", "windows_in")


@dataclass(frozen=True)
class EncoderSpec:
    """An encoder in words; None where the words leave it open.

    Args:
        source: who builds the network; the name of a plug-in, where it is not sparcal.
        model: the source's name for architecture and weights, with the weight tag (`wide_resnet50_2.tv_in1k`).
        layers: for networks with stages, strides (8 = an eighth of the input size); for plain transformers,
            zero-based blocks, negative ones counted from the end.
        aggregate: how the layers become the grids that are corrected; see `sparcal.encoders.aggregate`.
        norm: whether transformer tokens pass the network's final normalisation.
        cls: whether an image vector (class token, or pooled last stage) is returned as well.
        precision: what the network computes in; features leave it as float32.
        runtime: what computes the network on a processor; see `sparcal.runtimes`.
        resize, size, crop, multiple, resample: see `sparcal.imaging.preprocess.Preprocess`.
        positions: how a transformer's position embeddings are resized to another grid; see
            `sparcal.encoders.positions`.
        tokens: patch vectors as the block leaves them, after ln_post, or projected into the space of texts; this and
            all that follows is for open_clip alone.
        gelu: the activation, "quick" for weights that OpenAI trained.
        path: "vv" reads the local stream of AnomalyCLIP, see `sparcal.encoders.vv_attention`.
        vv_blocks: the number of last blocks that the local stream runs through.
        windows: sides, in cells, of the windows that are embedded on their own (WinCLIP).
        windows_in: "levels" gives each window size a grid, corrected like any other; "cls" appends them to the image
            vector, where no correction reaches them.
    """

    source: str
    model: str
    layers: tuple[int, ...] | None = None
    aggregate: Aggregate | None = None
    norm: bool | None = None
    cls: bool | None = None
    resize: Resize | None = None
    size: int | None = None
    crop: int | None = None
    multiple: int | None = None
    resample: Resample | None = None
    tokens: Tokens | None = None
    positions: Positions | None = None
    gelu: Gelu | None = None
    path: TokenPath | None = None
    vv_blocks: int | None = None
    windows: tuple[int, ...] | None = None
    windows_in: WindowsIn | None = None
    precision: ComputePrecision | None = None
    runtime: Runtime | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.source, str) or self.source not in SOURCES:  # looking for plug-ins takes a while
            one_of(self.source, "EncoderSpec.source", (*SOURCES, *plugin_packages(ENCODER_GROUP)))
        text(self.model, "EncoderSpec.model")
        for name, kind in _READERS.items():
            value, who = getattr(self, name), f"EncoderSpec.{name}"
            if isinstance(kind, tuple):
                one_of(value, who, kind, optional=True)
            elif kind == "integers":
                whole_numbers(value, who, least=1 if name == "windows" else None, optional=True)
            elif kind == "switch":
                switch(value, who, optional=True)
            else:
                whole_number(value, who, least=1, optional=True)
        wrong = [name for name in CLIP_ONLY if getattr(self, name) is not None]
        if wrong and self.source != "openclip":
            raise EncoderNameError(
                f"The encoder setting {wrong[0]} is for open_clip models, got it with {self.source}: "
                "leave it out, or use openclip:MODEL/TAG."
            )

    def filled(self, recipe: EncoderSpec) -> EncoderSpec:
        """This spec with what it does not say taken from `recipe`; source and model stay.

        The five words about geometry belong together (a crop makes no sense under another size), so they are taken
        over only when this spec says none of them. The words about CLIP are taken over by open_clip models alone,
        and not `norm` where `tokens` decides it already.
        """
        geometry = ("resize", "size", "crop", "multiple", "resample")
        own_geometry = any(getattr(self, name) is not None for name in geometry)
        foreign = CLIP_ONLY if self.source != "openclip" else ("norm",) if self.tokens is not None else ()
        wanted = [f.name for f in fields(self) if f.name not in ("source", "model", *foreign)]
        missing = [n for n in wanted if getattr(self, n) is None and not (own_geometry and n in geometry)]
        return replace(self, **{name: getattr(recipe, name) for name in missing})

    def preprocess(self, mean: tuple[float, ...], std: tuple[float, ...], *, size: int, resample: str) -> Preprocess:
        """The preprocessing that this spec asks for, with the network's own statistics."""
        try:
            return Preprocess(
                size=self.size or size,
                resize=self.resize or "square",
                crop=self.crop,
                multiple=self.multiple or 1,
                resample=self.resample or resample,  # type: ignore[arg-type]
                mean=tuple(mean),  # type: ignore[arg-type]
                std=tuple(std),  # type: ignore[arg-type]
            )
        except DataError as error:  # the words were good one by one, and do not go together
            reason = str(error).rstrip(".")
            raise EncoderNameError(f"The settings of {str(self)!r} must go together, got this: {reason}.") from error

    def __str__(self) -> str:
        head = f"{self.source}:{self.model}" if self.model else self.source
        settings = [(f.name, getattr(self, f.name)) for f in fields(self) if f.name not in ("source", "model")]
        words = "&".join(f"{name}={_word(value)}" for name, value in settings if value is not None)
        return f"{head}?{words}" if words else head


@dataclass(frozen=True)
class Recipe:
    """What a host asks of an encoder that is not its own, in the words after the question mark.

    Args:
        stages: for networks with stages.
        blocks: for plain transformers.
        few_blocks: for plain transformers that are too shallow for `blocks`; empty where `blocks` suits all.
    """

    stages: str = "layers=8,16&aggregate=pool"
    blocks: str = "aggregate=pool"
    few_blocks: str = ""

    def __post_init__(self) -> None:
        for name in ("stages", "blocks", "few_blocks"):
            text(getattr(self, name), f"Recipe.{name}")
            parse_spec(f"openclip:recipe?{getattr(self, name)}")

    def fill(self, spec: EncoderSpec, *, blocks: int | None) -> EncoderSpec:
        """`spec` with what it does not say taken from this recipe.

        Args:
            blocks: how many a plain transformer has; None for networks with stages.
        """
        # Read as words for CLIP, which may say everything; `filled` takes over what the spec's own source knows.
        wishes = parse_spec(f"openclip:recipe?{self.stages if blocks is None else self.blocks}")
        if blocks is not None and self.few_blocks and wishes.layers and -min(wishes.layers) > blocks:
            wishes = parse_spec(f"openclip:recipe?{self.few_blocks}")
        return spec.filled(wishes)


def parse_spec(words: str) -> EncoderSpec:
    """Read a spec from its text."""
    text(words, "An encoder's name", hint="write 'bundled', 'timm:MODEL.TAG' or 'openclip:MODEL/TAG'")
    head, _, query = words.partition("?")
    source, _, model = head.partition(":")
    ours = source in SOURCES and (source == "bundled") != bool(model)
    if not ours and (source in SOURCES or source not in plugin_packages(ENCODER_GROUP)):
        raise EncoderNameError(
            f"An encoder must be 'bundled', 'timm:MODEL.TAG' or 'openclip:MODEL/TAG', got {words!r}: "
            "run 'sparcal encoders' for the list."
        )
    settings: dict[str, object] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _READERS:
            raise EncoderNameError(
                f"An encoder has no setting {name!r} (in {words!r}); choose from {', '.join(_READERS)}."
            )
        settings[name] = _read(name, value, words)
    return EncoderSpec(source=source, model=model, **settings)  # type: ignore[arg-type]


def check_weights(spec: EncoderSpec, weights: str | Path | None) -> None:
    """Refuse a weight file that is not there, or that the encoder has no use for; other people's encoders look themselves."""
    if weights is None or spec.source not in SOURCES:
        return
    if spec.source == "bundled":
        raise DataError(f"The bundled encoder brings its own weights, got weights={str(weights)!r}: leave it out.")
    if not (isinstance(weights, str) and weights.startswith(RANDOM_WEIGHTS)):
        require_weight_file(spec.model, weights)


def require_weight_file(model: str, weights: str | Path) -> None:
    """Refuse a path at which there is no weight file."""
    file_path(weights, "weights")
    if not Path(weights).is_file():
        raise WeightsError(
            f"The weights of {model} were expected in the file {weights}, got none there: check weights=."
        )


def with_precision(spec: EncoderSpec, precision: ComputePrecision | None) -> EncoderSpec:
    """`spec` in a precision; float32, which every encoder has by itself, goes unsaid, so that it has one id."""
    one_of(precision, "precision", get_args(ComputePrecision), optional=True)
    wanted = precision or spec.precision
    return replace(spec, precision=None if wanted == "float32" else wanted)


def with_runtime(spec: EncoderSpec, runtime: Runtime) -> EncoderSpec:
    """`spec` with the runtime that computes it; torch goes unsaid, so that it has one id."""
    return replace(spec, runtime=None if runtime == TORCH else runtime)


def block_numbers(spec: EncoderSpec, depth: int) -> tuple[int, ...]:
    """The blocks that `spec.layers` names in a plain transformer of that many, each once, first to last."""
    assert spec.layers is not None
    outside = [block for block in spec.layers if not -depth <= block < depth]
    if outside:
        raise EncoderNameError(
            f"The encoder setting layers of {spec.model} takes blocks 0 to {depth - 1} (negative: from the end), "
            f"got {outside[0]} in {str(spec)!r}."
        )
    return tuple(sorted({block % depth for block in spec.layers}))


def _read(name: str, value: str, words: str) -> object:
    kind = _READERS[name]
    try:
        if isinstance(kind, tuple):
            if value not in kind:
                raise ValueError
            return value
        if kind == "integers":
            return tuple(int(part) for part in value.split(","))
        if kind == "switch":
            return {"0": False, "1": True}[value]
        number = int(value)
        if number < 1:
            raise ValueError
        return number
    except (ValueError, KeyError):
        wanted = {"integers": "integers such as 8,16", "switch": "0 or 1", "integer": "an integer of at least 1"}
        expected = " or ".join(kind) if isinstance(kind, tuple) else wanted[kind]
        raise EncoderNameError(f"The encoder setting {name} must be {expected}, got {value!r} in {words!r}.") from None


def _word(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(int(value)) if isinstance(value, bool) else str(value)


_READERS: dict[str, tuple[str, ...] | Literal["integers", "switch", "integer"]] = {
    "layers": "integers",
    "aggregate": get_args(Aggregate),
    "norm": "switch",
    "cls": "switch",
    "resize": get_args(Resize),
    "size": "integer",
    "crop": "integer",
    "multiple": "integer",
    "resample": get_args(Resample),
    "tokens": get_args(Tokens),
    "positions": get_args(Positions),
    "gelu": get_args(Gelu),
    "path": get_args(TokenPath),
    "vv_blocks": "integer",
    "windows": "integers",
    "windows_in": get_args(WindowsIn),
    "precision": get_args(ComputePrecision),
    "runtime": get_args(Runtime),
}
