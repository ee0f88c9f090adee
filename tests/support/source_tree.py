"""The package as source text: its modules, what each imports, and the public names each defines."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import sparcal

PACKAGE = Path(sparcal.__file__).parent


class Import(NamedTuple):
    """One module that another imports.

    Args:
        module: dotted, as deep as a module of the package goes.
        for_types: only where types are checked, so never at run time.
    """

    module: str
    for_types: bool


def module_name(path: Path) -> str:
    """The dotted name of a file of the package."""
    parts = ("sparcal", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES: dict[str, Path] = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def tree(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path) -> set[Import]:
    """Every module of the package that a file imports anywhere, also inside functions."""
    return set(_imports(tree(path), for_types=False))


def _imports(node: ast.AST, *, for_types: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, for_types) for alias in child.names if _ours(alias.name))
        elif isinstance(child, ast.ImportFrom) and child.module and _ours(child.module):
            for alias in child.names:
                full = f"{child.module}.{alias.name}"
                yield Import(full if full in MODULES else child.module, for_types)
        else:
            checking = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
            yield from _imports(child, for_types=for_types or checking)


def _ours(module: str) -> bool:
    return module == "sparcal" or module.startswith("sparcal.")


def public_names(path: Path) -> set[str]:
    """The names without an underscore that a file itself defines at its top level."""
    names: set[str] = set()
    for node in tree(path).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return {name for name in names if not name.startswith("_")}


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Every function of a file, nested ones too, with how many lines it has."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            yield node.name, node.end_lineno - node.lineno + 1
