"""Which cells a memory bank was made of, and the bank without some images."""

from __future__ import annotations

import torch
from torch import Tensor

from sparcal.errors import DataError

CHUNK_ROWS = 4096


def find_rows(bank: Tensor, rows: Tensor) -> Tensor:
    """(m,): for each bank vector (m, d), a row of `rows` (n, d) that equals it bit for bit.

    By exact integer keys, because comparing all pairs would cost as much as choosing the bank did.
    """
    weights = torch.randint(1, 2**31, (rows.shape[1],), generator=torch.Generator().manual_seed(0)).to(rows.device)
    ordered, order = row_keys(rows, weights).sort(stable=True)
    places = torch.searchsorted(ordered, row_keys(bank, weights)).clamp_max(len(rows) - 1)
    chosen: Tensor = order[places]
    if not torch.equal(rows[chosen], bank):
        raise DataError(
            "The memory bank must be made of the features it was rebuilt from, got others: report this, with anomalib's version."
        )
    return chosen


def row_keys(rows: Tensor, weights: Tensor) -> Tensor:
    """(n,): one integer per row (n, d), from its bits; the sum wraps around, which is exact."""
    words = {2: torch.int16, 4: torch.int32, 8: torch.int64}[rows.element_size()]
    return torch.cat([(part.view(words).long() * weights).sum(dim=1) for part in rows.split(CHUNK_ROWS)])


def kept_rows(rows: Tensor, chosen: Tensor | None, out: Tensor) -> Tensor:
    """The chosen rows (n h w, d) of all images but those marked in `out` (n,)."""
    assert chosen is not None
    cells = len(rows) // len(out)
    known = chosen[chosen < len(rows)]
    kept = known[~out.to(known.device)[known // cells]]
    if len(kept) == 0:
        raise DataError(
            f"A memory bank of {len(chosen)} vectors is too small to be cut into folds: raise the coreset ratio, or pass "
            "good images of the lot as held_out=."
        )
    return rows[kept]
