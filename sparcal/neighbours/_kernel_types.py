"""What the compiled loops are given: arrays in plain tuples.

Not classes: numba's files on disk would name a class of this module, and a later version that renames it could not
read them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float32] | NDArray[np.float64]
Sketches = NDArray[np.float32]
Squares = NDArray[np.float64]
Indices = NDArray[np.int64]

# points (n, d); their sketches in two stages (n, COARSE + 1) and (n, p), see `Sketch.staged`; growth and pad: a squared
# sketch distance above growth * t + pad proves a true one above t.
Cloud = tuple[Points, Sketches, Sketches, float, float]

# What rules bank rows out: lower bounds (q, m); growth; pads (q,). A bound above growth * t + pad proves a squared distance
# above t.
Proof = tuple[Sketches, float, Sketches]

# A bank in boxes of LEAF_ROWS rows: lowest and highest sketch coordinates of each box along the coarse axes, (axes, boxes)
# each; those coordinates of its rows, (boxes, axes, LEAF_ROWS), infinite where there is no row; the other coordinates,
# (boxes * LEAF_ROWS, p); which bank rows these are (boxes * LEAF_ROWS,); growth and pad as in Cloud.
BoxedRows = tuple[Sketches, Sketches, Sketches, Sketches, Indices, float, float]

# growth and pad: a bound above growth * t + pad proves a squared distance above t.
Ceiling = tuple[float, float]

# Bank rows that no bound has ruled out: their bounds (c,), and which rows these are (c,).
Candidates = tuple[Sketches, Indices]

# The k nearest rows of a query so far: their squared distances (k,), ascending, and which rows these are (k,).
Nearest = tuple[Squares, Indices]

# A greedy selection under way: the members (size,); their sketches, (blocks, COARSE + 1, LANES), of infinite norm where
# none is yet, and (size, p); per point the squared distance to the nearest member it was compared with, and how many
# that is; a heap of the points with the largest square on top, the lower index first among equals.
Selection = tuple[Indices, Sketches, Sketches, Squares, Indices, Indices]
