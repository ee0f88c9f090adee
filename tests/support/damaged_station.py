"""Every kind of file that a station has, every way to spoil one, and every command that reads them."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from pathlib import Path

from sparcal.cli import run

DAMAGES = ("deleted", "empty", "truncated", "flipped", "of another station")


def files_of(station: Path) -> dict[str, Path]:
    """One file of each kind."""
    reference = next(path for path in (station / "references").iterdir())
    lot = station / "lots/L1"
    kinds = {
        "record": station / "station.json",
        "features": next(iter(sorted((station / "features").glob("*.safetensors")))),
        "reference": reference / "reference.safetensors",
        "folds": reference / "folds.safetensors",
        "training part": next(iter(sorted(reference.glob("part-*")))),
        "station's self-test": reference / "self-test.html",
        "lot's record": lot / "lot.json",
        "lot's correction": lot / "correction.safetensors",
        "lot's reference": lot / "reference.safetensors",
        "lot's maps": lot / "maps.safetensors",
        "lot's part": next(iter(sorted(lot.glob("part-*")))),
        "lot's self-test": lot / "self-test.html",
        "thresholds by hand": station / "overrides/L1.json",
        "active lot": station / "active",
        "history": station / "history.jsonl",
    }
    assert all(path.is_file() for path in kinds.values())
    return kinds


def spoil(path: Path, damage: str, other: Path) -> None:
    """Damage a file; `other` is the same file of another station."""
    content = bytearray(path.read_bytes())
    path.chmod(0o644)
    if damage == "deleted":
        path.unlink()
    elif damage == "of another station":
        shutil.copyfile(other, path)
    else:
        middle = len(content) // 2
        content[middle] ^= 1
        path.write_bytes({"empty": b"", "truncated": content[:middle], "flipped": bytes(content)}[damage])


def command(name: str, root: Path, station: Path, out: Path) -> list[str]:
    """The words of one command on a station."""
    at = str(station)
    return {
        "lots": ["lots", at],
        "history": ["lots", at, "--history"],
        "show": ["show", at],
        "score": ["score", at, str(root / "one")],
        "score L2": ["score", at, str(root / "one"), "--lot", "L2"],
        "own": ["lots", at, "--own"],
        "test": ["test", at, "--n", "6"],
        "export": ["export", at, "--format", "state", "--out", str(out / "state.safetensors")],
        "calibrate": ["calibrate", at, str(root / "normals"), "--lot", "new", "--correction", "sparc", "--activate"],
        "fit --add": ["fit", str(root / "one"), "--station", at, "--add"],
        "serve": ["serve", at, "--port", "0"],
    }[name]


LIGHT = ("lots", "history", "show", "score", "score L2", "own")
HEAVY = ("test", "export", "calibrate", "fit --add", "serve")


def outcome(words: list[str]) -> tuple[int, str, str]:
    """Exit code, what the command answers for machines, and what it says to people."""
    said, answered = io.StringIO(), io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(answered):
        code = run([*words, "--json"])
    return code, answered.getvalue(), said.getvalue()


def judged(name: str, answer: str) -> object:
    """What of an answer must not change in silence: verdicts, scores, thresholds, counts."""
    if not answer.strip():
        return None
    value = json.loads(answer)
    if name == "own":  # it does what it was asked for whatever lot is damaged, and names the damage
        return [(row.get("lot"), bool(row.get("active"))) for row in value]
    if name == "lots":
        return [(row.get("lot"), row.get("active"), row.get("threshold"), row.get("images")) for row in value]
    if name == "history":
        return len(value)
    if name.startswith("score"):
        rows = value if isinstance(value, list) else value["rows"]
        return [(row["path"], row["score"], row["threshold"], row["verdict"]) for row in rows]
    if name == "calibrate":
        return value["correction"], value["image_threshold"]["value"], value["self_test"]["found"]
    if name == "fit --add":
        return value["images"], value["threshold"]["value"]
    keys = {"show": ("threshold", "correction", "images"), "test": ("found", "planted"), "export": ("threshold",)}
    return [value.get(key) for key in keys.get(name, ())]
