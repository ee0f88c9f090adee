"""Inside the server, too, imports go one way: settings and sentences, then data, then work, then web."""

from __future__ import annotations

import ast
from pathlib import Path

from sparcal import server

ROOT = Path(server.__file__).parent
ORDER = ("settings", "refusals", "sentences", "data", "work", "web")
FROM_WORK = {"sparcal.server.work.supervisor"}  # all that the web side needs of the worker's


def test_nothing_imports_what_stands_on_it():
    for path in ROOT.rglob("*.py"):
        room = path.relative_to(ROOT).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            module = node.module if isinstance(node, ast.ImportFrom) and node.module else ""
            if not module.startswith("sparcal.server.") or room == "__init__":
                continue
            other = module.split(".")[2]
            assert ORDER.index(other) <= ORDER.index(room), f"{path} imports {module}"
            if (room, other) == ("web", "work"):
                assert module in FROM_WORK, f"{path} imports {module}"
