"""The nearest row of a bank in an exported graph, without taking every distance.

Near rows are kept side by side in blocks, and every block has a box along the first of the bank's leading axes. Each cell takes
its distance to one row of the nearest box; boxes that are farther away than that are left out by proof. Cells that share a block
which is not are put into tiles, and products of matrices compare every tile with the rows of its block: along the leading axes
first, which leaves out most blocks that boxes do not, and in all coordinates where that proves nothing. No loop is needed, and
nothing is lost. `nearest_squares_plainly` is the same without blocks.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sparcal.detectors.export_rule import GraphShapes, GraphTensors

AXES = 32  # leading axes
BOX_AXES = 16  # the first of them, that boxes are along
TILE = 32  # cells that are compared with a block at once
MANY = 0.25  # of all blocks: cells with more left after products along the axes take the whole bank instead
NEARLY_ALL = 0.9  # the same after boxes alone, as in a picture of something else: leading axes would not help either
FAR = 1e30  # square of rows that only fill up the last block
MOST_TILES = 2**40  # for the tracer, which takes any number for possible
_BLOCKS = 192  # about as many, if that does not make them
_FEWEST, _MOST = 32, 1024  # rows each
_ROUNDS = 16  # in which two halves settle around their means
_SHARE = 2**-8  # (a + b)^2 <= (1 + share) a^2 + (1 + 1 / share) b^2 keeps the allowance for rounding free of roots


def block_shapes(d: int) -> GraphShapes:
    """The names and shapes of the tensors for features of d channels: b blocks of m rows."""
    axes = min(AXES, d)
    return {
        "bank": ("b", "m", d + 1),  # each row times -2, and its square: a product with (x, 1) orders rows by distance
        "bank_axes": (d, axes),
        "bank_boxes": (2, min(BOX_AXES, d), "b"),  # middle, and half of the width
        "bank_centre": (d,),
        "bank_leading": ("b", "m", axes + 1),  # the same along the axes alone
    }


def block_tensors(bank: Tensor) -> GraphTensors:
    """The rows (m, d) of a bank by these names, relative to their mean: that changes no distance and loses fewer digits."""
    centre = bank.double().mean(dim=0).float()
    centred = bank.double() - centre
    axes = torch.linalg.eigh(centred.mT @ centred).eigenvectors.flip(1)[:, :AXES].float()
    each = min(max(-(-len(bank) // _BLOCKS), _FEWEST), _MOST)
    order = near_rows_together(centred @ axes.double(), each)
    missing = -len(order) % each
    rows = centred[order]
    along = rows @ axes.double()
    again = torch.cat((along, along[-1:].expand(missing, -1)))[:, :BOX_AXES].unflatten(0, (-1, each))
    low, high = again.amin(dim=1), again.amax(dim=1)
    # A little wider, so that float32 holds no box that a row sticks out of.
    half = (high - low) / 2 + 2**-20 * along.abs().amax()
    return {
        "bank": _for_products(rows, each),
        "bank_axes": axes,
        "bank_boxes": torch.stack(((low + high).mT / 2, half.mT)).float(),
        "bank_centre": centre,
        "bank_leading": _for_products(along, each),
    }


def _for_products(rows: Tensor, each: int) -> Tensor:
    """(b, each, d + 1): rows (m, d) times -2 and their squares, filled up with rows at the origin that seem far away."""
    filled = rows.new_zeros(-(-len(rows) // each) * each, rows.shape[1] + 1)
    filled[:, -1] = FAR
    filled[: len(rows)] = torch.cat((-2 * rows, rows.square().sum(dim=1, keepdim=True)), dim=1)
    blocks: Tensor = filled.float().unflatten(0, (-1, each))
    return blocks


def near_rows_together(points: Tensor, each: int) -> Tensor:
    """(m,): an order of points (m, p) in which each `each` lie together: halved around two means, again and again."""
    waiting = [torch.arange(len(points))]
    done = []
    while waiting:
        part = waiting.pop()
        if len(part) <= each:
            done.append(part)
            continue
        half = (len(part) // each + 1) // 2 * each
        part = part[_two_means(points[part], half)]
        waiting += [part[half:], part[:half]]
    return torch.cat(done)


def _two_means(points: Tensor, half: int) -> Tensor:
    """(m,): an order of points (m, p) that puts those nearer to the mean of the first `half` than to the others' mean first."""
    order = points[:, points.var(dim=0).argmax()].argsort(stable=True)
    for _ in range(_ROUNDS):
        across = points[order[half:]].mean(dim=0) - points[order[:half]].mean(dim=0)
        order = (points @ across).argsort(stable=True)
    return order


def nearest_squares(x: Tensor, tensors: GraphTensors) -> Tensor:
    """(q,): the squared distance of each of (q, d) to the nearest row of the bank, both relative to its centre."""
    bank, leading, along = tensors["bank"], tensors["bank_leading"], x @ tensors["bank_axes"]
    points, short = _with_one(x), _with_one(along)
    bounds = box_bounds(along, tensors["bank_boxes"])
    first = bounds.mT.argmin(dim=1)
    beside = (leading.index_select(0, first) @ short[:, :, None]).squeeze(2)
    nearest = _square_gaps(x, bank, first * bank.shape[1] + beside.argmin(dim=1))

    squares = (x * x).sum(dim=1)
    allowance = _rounding(x.shape[1]) * squares
    left = bounds <= _growth() * nearest + allowance
    hard = left.float().mean(dim=0) > NEARLY_ALL
    who, block = cell_tiles(left & ~hard)
    lowest, likely, row = compare_tiles(short, leading, (who, block), squares)
    nearest = _nearer(nearest, x, bank, likely, row)

    lowest = lowest + (along * along).sum(dim=1).index_select(0, who.flatten())
    place = (block[:, None] * x.shape[0] + who).flatten()
    bounds = torch.full_like(bounds, torch.inf).flatten().scatter(0, place, lowest).reshape(bounds.shape)
    left = bounds <= _growth() * nearest + allowance
    hard = hard | (left.float().mean(dim=0) > MANY)
    nearest = nearest.minimum(_of_whole_bank(x, hard, bank))
    _, likely, row = compare_tiles(points, bank, cell_tiles(left & ~hard), squares)
    return _nearer(nearest, x, bank, likely, row)


def nearest_squares_plainly(x: Tensor, tensors: GraphTensors) -> Tensor:
    """What `nearest_squares` finds, by all distances."""
    rows = tensors["bank"].flatten(0, 1)[:, :-1] / -2
    real = tensors["bank"].flatten(0, 1)[:, -1] < FAR
    return (x[:, None] - rows[real]).square().sum(dim=-1).amin(dim=1)


def box_bounds(along: Tensor, boxes: Tensor) -> Tensor:
    """(b, q): at most the squared distance of each cell, (q, axes), to any row in a box; boxes are (2, axes, b).

    One axis at a time, so that what is between the sums stays in the processor's cache.
    """
    bounds = torch.zeros(boxes.shape[2], along.shape[0], device=along.device)
    for x, middle, half in zip(along.mT.unbind(), *(side.unbind() for side in boxes[..., None].unbind()), strict=False):
        gap = ((x - middle).abs() - half).relu()
        bounds = bounds + gap * gap
    return bounds


def cell_tiles(left: Tensor) -> tuple[Tensor, Tensor]:
    """Which cells to compare with which block, from (b, q): cells (tiles, TILE) and blocks (tiles,).

    All cells of a tile have its block left. Tiles that would not be full hold their last cell again.
    """
    counts = left.float().sum(dim=1).long()  # runtimes add floats faster
    ends = counts.cumsum(0)
    cell = left.nonzero(as_tuple=True)[1]  # sorted by block
    most = (left.shape[1] + TILE - 1) // TILE
    steps = torch.arange(most, device=left.device) * TILE
    block, number = (steps < counts[:, None]).nonzero(as_tuple=True)
    torch._check(cell.shape[0] <= TILE * MOST_TILES)
    torch._check(block.shape[0] <= MOST_TILES)
    end = ends.index_select(0, block)
    start = end - counts.index_select(0, block) + number * TILE
    place = torch.minimum(start[:, None] + torch.arange(TILE, device=left.device), end[:, None] - 1)
    return cell.index_select(0, place.flatten()).reshape(-1, TILE), block


def nearest_rows(x: Tensor, bank: Tensor, k: int) -> Tensor:
    """(q, k): the rows nearest to each of (q, d), by all products with a bank (b, m, d + 1)."""
    order = _with_one(x) @ bank.flatten(0, 1).mT
    return order.argmin(dim=1, keepdim=True) if k == 1 else order.topk(k, dim=1, largest=False).indices


def take_rows(bank: Tensor, rows: Tensor) -> Tensor:
    """(*, d): the rows of (b, m, d + 1) that indices (*) name."""
    taken = bank.flatten(0, 1).index_select(0, rows.flatten())[:, :-1] * -0.5
    return taken.reshape(*rows.shape, bank.shape[2] - 1)


def compare_tiles(
    points: Tensor, blocks: Tensor, tiles: tuple[Tensor, Tensor], squares: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Products of the cells of tiles with the rows of their blocks.

    Args:
        points: (q, p + 1), the cells, and one.
        blocks: (b, m, p + 1).
        tiles: as from `cell_tiles`.
        squares: (q,), of the cells in all coordinates, which rounding is in proportion to.

    Returns:
        The lowest product of each cell of a tile, (tiles * TILE,): a squared distance, less the cell's own square.
        Cells, and for each the number of a row that is its nearest of all compared, as far as the products can tell.
    """
    who, block = tiles
    cells = who.flatten()
    tile = points.index_select(0, cells).reshape(-1, TILE, points.shape[1])
    order = (tile @ blocks.index_select(0, block).mT).flatten(0, 1)  # (cells of tiles, m)
    lowest = order.amin(dim=1)
    best = torch.full_like(points[:, 0], torch.inf).scatter_reduce(0, cells, lowest, "amin")
    likely = best + 2**-20 * squares
    (place,) = (lowest <= likely.index_select(0, cells)).nonzero(as_tuple=True)
    torch._check(place.shape[0] <= TILE * MOST_TILES)
    row = block.index_select(0, place // TILE) * blocks.shape[1] + order.index_select(0, place).argmin(dim=1)
    return lowest, cells.index_select(0, place), row


def _nearer(nearest: Tensor, x: Tensor, bank: Tensor, cell: Tensor, row: Tensor) -> Tensor:
    """(q,): the lower of `nearest` and the distances of some cells to some rows, by difference, which keeps more digits."""
    return nearest.scatter_reduce(0, cell, _square_gaps(x.index_select(0, cell), bank, row), "amin")


def _of_whole_bank(x: Tensor, wanted: Tensor, bank: Tensor) -> Tensor:
    """(q,): squared distances to the nearest of all rows where `wanted`, infinite elsewhere."""
    (where,) = wanted.nonzero(as_tuple=True)
    torch._check(where.shape[0] <= MOST_TILES)
    own = x.index_select(0, where)
    found = nearest_rows(own, bank, 1)[:, 0]
    return torch.full_like(x[:, 0], torch.inf).scatter(0, where, _square_gaps(own, bank, found))


def _square_gaps(x: Tensor, bank: Tensor, rows: Tensor) -> Tensor:
    """(q,): the squared distance of each of (q, d) to the row of (b, m, d + 1) that (q,) names."""
    gap = x - take_rows(bank, rows)
    return (gap * gap).sum(dim=1)


def _with_one(x: Tensor) -> Tensor:
    return torch.cat((x, torch.ones_like(x[:, :1])), dim=1)


def _growth() -> float:
    """See `_rounding`; the second factor is for the float32 of the distance itself."""
    return (1 + _SHARE) * (1 + 2**-8)


def _rounding(d: int) -> float:
    """A bound above growth * t + rounding * |x|^2 proves a squared distance above t.

    Each of AXES coordinates is a sum of d products, wrong by d / 2^24 of |x| at most. A product along the axes with a row y is
    wrong by (AXES + 4) / 2^24 of (|x| + |y|)^2 at most, which is no more than 8 |x|^2 and twice the squared distance.
    """
    return (1 + 1 / _SHARE) * AXES * (d * 2**-24) ** 2 + 8 * (AXES + 4) * 2**-24
