"""The experiments of the paper, one TOML file each; `sparcal bench list` names them, `sparcal bench run NAME` runs one."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path

from sparcal.errors import DataError
from sparcal.settings import file_path


def experiment_titles() -> dict[str, str]:
    """The title of every packaged experiment, by name."""
    names = sorted(entry.name for entry in files(__package__).iterdir() if entry.name.endswith(".toml"))
    titles = {name: str(tomllib.loads(_packaged(name))["title"]) for name in names}
    return {name.removesuffix(".toml"): title.replace(" on {encoder}", "") for name, title in titles.items()}


def experiment_datasets() -> dict[str, list[str]]:
    """The datasets that every packaged experiment needs, by name; the rows of an experiment may ask for more."""
    found = {}
    for name in experiment_titles():
        text = tomllib.loads(_packaged(f"{name}.toml"))
        blocks = [block for value in text.values() if isinstance(value, list) for block in value]
        asked = [*text.get("datasets", []), *(x for b in blocks if isinstance(b, dict) for x in b.get("datasets", []))]
        found[name] = list(dict.fromkeys(asked))
    return found


def experiment_source(name_or_path: str) -> str:
    """The text of an experiment: a packaged one by its name, or a file by its path.

    A packaged name wins over a file of that name in the working folder; write ./NAME for the file.
    """
    titles = experiment_titles()
    if name_or_path in titles:
        return _packaged(f"{name_or_path}.toml")
    file_path(name_or_path, "An experiment")
    path = Path(name_or_path)
    if not path.suffix and len(path.parts) == 1 and not path.exists():
        raise DataError(
            f"There is no experiment {name_or_path!r}; choose from {', '.join(titles)}, or give the path of a TOML file."
        )
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "bytes that are not text"
        raise DataError(f"The experiment {path} must be a readable file, got {reason}: check the path.") from error


def _packaged(file: str) -> str:
    return files(__package__).joinpath(file).read_text(encoding="utf-8")
