"""Runs the notebooks of examples/ again and keeps what they show, without the time of day of every cell."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[2] / "examples"

for path in sorted(EXAMPLES.glob("*.ipynb")):
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(EXAMPLES)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=where, record_timing=False).execute()
    nbformat.write(notebook, path)
