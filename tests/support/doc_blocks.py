"""The code blocks of a Markdown page, and running them as a reader would: in order, in one folder, in one session."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparcal.cli import run

RUN = ("python", "bash")
SHOWN = ("text", "json", "toml", "csv")  # output, data and synopses: nothing to run
DIRECTIVES = ("{eval-rst}", "{image}", "{toctree}", "{figure}", "{literalinclude}")

_BLOCK = re.compile(
    r"(?:^[ \t]*<!-- (not run[^:]*): ([^>]+) -->\n)?^([ \t]*)```(\S*)[^\n]*\n(.*?)^[ \t]*```", re.M | re.S
)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and why it is not run, where a comment above it says so."""

    language: str
    text: str
    reason: str | None


def blocks_of(page: Path) -> list[Block]:
    """Every fenced block of a page, in order."""
    found = []
    for _, reason, indent, language, text in _BLOCK.findall(page.read_text(encoding="utf-8")):
        lines = [line.removeprefix(indent) for line in text.splitlines()]
        found.append(Block(language, "\n".join(lines), reason.strip() or None))
    return found


def run_blocks(blocks: list[Block], *, done: tuple[str, ...] = ()) -> None:
    """Run what is to be run, in the current folder; lines of `done` have been run already."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks:
        if block.reason is not None or block.language not in RUN:
            continue
        if block.language == "python":
            exec(compile(block.text, "page", "exec", dont_inherit=True), names)
        else:
            for command in commands(
                "\n".join(line for line in block.text.splitlines() if line.split("#")[0].strip() not in done)
            ):
                assert run(command) == 0, " ".join(command)


def commands(text: str) -> list[list[str]]:
    """The words after `sparcal` of each line; other programs are for blocks that say why they are not run."""
    called = [shlex.split(line, comments=True) for line in text.splitlines()]
    called = [words for words in called if words]
    for words in called:
        assert words[0] == "sparcal", f"{words[0]} is not run by the tests: say why in a comment, <!-- not run: ... -->"
    return [words[1:] for words in called]
