"""Which cells a memory bank was made of."""

from __future__ import annotations

import torch
from torch import Tensor

CHUNK_ROWS = 4096


def find_rows(bank: Tensor, rows: Tensor) -> Tensor | None:
    """(m,): for each bank vector (m, d), a row of `rows` (n, d) that equals it bit for bit; None if one has no equal.

    By exact integer keys, because comparing all pairs would cost as much as choosing the bank did.
    """
    weights = torch.randint(1, 2**31, (rows.shape[1],), generator=torch.Generator().manual_seed(0)).to(rows.device)
    ordered, order = row_keys(rows, weights).sort(stable=True)
    found = torch.searchsorted(ordered, row_keys(bank, weights)).clamp_max(len(rows) - 1)
    chosen: Tensor = order[found]
    return chosen if torch.equal(rows[chosen], bank) else None


def row_keys(rows: Tensor, weights: Tensor) -> Tensor:
    """(n,): one integer per row (n, d), from its bits; the sum wraps around, which is exact."""
    words = {2: torch.int16, 4: torch.int32, 8: torch.int64}[rows.element_size()]
    return torch.cat([(part.view(words).long() * weights).sum(dim=1) for part in rows.split(CHUNK_ROWS)])
