"""How far work has come: told to whoever asks, drawn in notebooks, silent everywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from sparcal.settings import function

Progress = Callable[[int, int], None]  # called with steps done and steps in all

SECONDS_BETWEEN = 0.2  # a notebook keeps up with this, and so does an eye


@contextmanager
def shown_progress(progress: Progress | None, *stages: str) -> Iterator[Progress]:
    """The caller's own `progress`; without one a bar where a notebook shows it, and nothing elsewhere.

    Args:
        stages: what is done; the next one begins when the count does.
    """
    function(progress, "progress", optional=True)
    if progress is not None:
        yield progress
    elif not in_notebook():
        yield unwatched
    else:
        yield from _in_lines(stages)


def in_notebook() -> bool:
    """Whether this is a notebook's kernel, which draws what it is handed; a terminal's IPython does not."""
    ipython = sys.modules.get("IPython")  # never imported by us: outside of notebooks it is a second's wait
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and getattr(shell, "kernel", None) is not None


def unwatched(done: int, total: int) -> None:
    """Progress that nobody watches."""


def _in_lines(stages: tuple[str, ...]) -> Iterator[Progress]:
    """One line of the notebook for each stage: a bar while it runs, how long it took when it is done."""
    line, later = _NotebookLine(stages[0]), list(stages[1:])

    def report(done: int, total: int) -> None:
        nonlocal line
        if later and done < line.done:
            line.finish()
            line = _NotebookLine(later.pop(0))
        line.report(done, total)

    yield report
    line.finish()


class _NotebookLine:
    """Plain HTML that replaces itself: it needs no widgets, and a saved notebook keeps its last state."""

    def __init__(self, stage: str) -> None:
        self.done, self.total = 0, 0
        self._stage = escape(stage)
        self._began = time.monotonic()
        self._drawn = 0.0
        self._handle: Any = None

    def report(self, done: int, total: int) -> None:
        now = time.monotonic()
        self.done, self.total = done, total
        if self._handle is None or now - self._drawn >= SECONDS_BETWEEN:
            self._drawn = now
            self._show(
                f"<progress value='{done}' max='{total}' aria-label='{self._stage}'></progress> {done} of {total}"
            )

    def finish(self) -> None:
        if self._handle is not None:
            took = time.monotonic() - self._began
            self._show(f"{self.done} of {self.total} in {took:.{0 if took >= 10 else 1}f} s")

    def _show(self, text: str) -> None:
        from IPython import display

        page: Any = display.HTML(f"<div>{self._stage}: {text}</div>")  # type: ignore[no-untyped-call]
        if self._handle is None:
            self._handle = display.display(page, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(page)
