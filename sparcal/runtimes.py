"""What computes an encoder on the processor: PyTorch, or a graph compiled by OpenVINO or onnxruntime.

A station records which, as part of its encoder's id: features of two runtimes differ in the last digits. `auto` is
settled when a station is fitted, see `sparcal.encoders.runtime_choice`; it never stands in a record.
"""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from typing import Any, Literal, get_args

from sparcal.errors import DataError, MissingExtraError
from sparcal.settings import text

CompiledRuntime = Literal["openvino", "onnx"]
Runtime = Literal["torch", "openvino", "onnx"]
TORCH: Runtime = "torch"
AUTO_RUNTIME = "auto"

PACKAGES: dict[CompiledRuntime, tuple[str, ...]] = {
    "openvino": ("openvino",),
    "onnx": ("onnxruntime", "onnx", "onnxscript"),
}
_WORD = "&runtime="


def check_runtime(name: str) -> None:
    """Raise DataError where no runtime has that name, and MissingExtraError where it is not installed."""
    text(name, "A runtime")
    if name == AUTO_RUNTIME:
        return
    if name not in get_args(Runtime):
        raise DataError(f"There is no runtime {name!r}; choose from {AUTO_RUNTIME}, {', '.join(get_args(Runtime))}.")
    missing = missing_package(name)
    if missing is not None:
        raise missing_extra(f"The runtime {name}", missing)


def missing_package(name: str) -> str | None:
    """The first package that a runtime needs and that is not installed; None where all are there."""
    return next((x for runtime, needs in PACKAGES.items() if runtime == name for x in needs if not _is_there(x)), None)


def installed_runtimes() -> tuple[CompiledRuntime, ...]:
    """The runtimes beside torch whose packages are installed."""
    return tuple(name for name in PACKAGES if missing_package(name) is None)


def with_runtime_word(encoder_id: str, runtime: CompiledRuntime) -> str:
    """An encoder's id with what computes it."""
    return f"{encoder_id}{_WORD}{runtime}"


def runtime_of(encoder_id: str) -> Runtime:
    """What computes the encoder of that id; torch goes unsaid."""
    return next((name for name in PACKAGES if encoder_id.endswith(f"{_WORD}{name}")), TORCH)


def import_extra(package: str, what: str) -> Any:
    """A package of the export extra, or the line that installs it.

    Args:
        what: needs it.
    """
    try:
        with warnings.catch_warnings():  # about deprecations inside
            warnings.simplefilter("ignore")
            return __import__(package)
    except ImportError as error:
        raise missing_extra(what, package) from error


def missing_extra(what: str, package: str) -> MissingExtraError:
    """The error that names the extra which installs a package."""
    return MissingExtraError(f"{what} needs {package}, which is not installed: run pip install 'sparcal[export]'.")


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # a module without a spec stands in its place
        return False
