"""The sources that can change a score: everything that running a unit imports, found in the sources themselves.

Nobody keeps this list. Starting at the evaluator, every import in a file is followed, also those inside functions, and
every text that is the name of a module, because registries load some of theirs by name.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import sparcal

START = "sparcal.bench.run.evaluator"
_HOME = Path(sparcal.__file__).parent


def score_sources(start: str = START, home: Path = _HOME) -> dict[str, Path]:
    """Every module of the library that `start` can reach, and its file.

    Args:
        home: the folder of the package `sparcal`.
    """
    reached: dict[str, Path] = {}
    waiting = [start]
    while waiting:
        name = waiting.pop()
        file = _file(name, home)
        # The package's front door passes names on and would lead everywhere; modules import from where things live.
        if file is None or name in reached or name == "sparcal":
            continue
        reached[name] = file
        waiting += [name.rpartition(".")[0], *_imported(file, name)]
    return dict(sorted(reached.items()))


@cache
def code_digest() -> str:
    """16 hexadecimal digits that change with any source that can change a score."""
    return sources_digest(score_sources())


def sources_digest(sources: dict[str, Path]) -> str:
    """16 hexadecimal digits of the modules' names and bytes."""
    digest = hashlib.sha256()
    for name, file in sources.items():
        digest.update(name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _file(name: str, home: Path) -> Path | None:
    """The file of a module of the library; None for anything else."""
    first, *parts = name.split(".")
    if first != "sparcal" or not all(part.isidentifier() for part in parts):
        return None
    place = home.joinpath(*parts)
    return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()), None)


def _imported(file: Path, name: str) -> Iterator[str]:
    """What may be modules among everything that a file names."""
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                anchor = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1])
                base = f"{anchor}.{base}" if base else anchor
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("sparcal."):
            yield node.value
