"""Nearest neighbours against faiss and anomalib.

Each side has one thread or one per core, whichever is faster. The features are synthetic: a mixture of 200 Gaussians whose
standard deviation falls as i^-0.6 along 256 axes, so that 16 axes hold about two thirds of the energy, as in ResNet
features; cells of real images repeat more and are easier.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sparcal.neighbours import nearest
from speed.measure import Goal, Row, Work, fastest


def features(n: int, d: int, *, seed: int = 0) -> Tensor:
    """`(n, d)`, the synthetic mixture."""
    random = torch.Generator().manual_seed(seed)
    spread = torch.arange(1, min(256, d) + 1) ** -0.6
    centres = torch.randn(200, len(spread), generator=random) * spread
    size = 0.6 * torch.randn(n, 1, generator=random).mul(0.5).exp()
    latent = centres[torch.randint(200, (n,), generator=random)]
    latent += torch.randn(n, len(spread), generator=random) * spread * size
    axes = torch.linalg.qr(torch.randn(d, len(spread), generator=random)).Q
    offset: Tensor = torch.nn.functional.normalize(torch.rand(d, generator=random), dim=0) * 6  # ReLU features have one
    mixture: Tensor = latent @ axes.T + offset
    return mixture


def queries_and_bank(queries: int, bank: int, d: int) -> tuple[Tensor, Tensor]:
    points = features(queries + bank, d)
    return points[:queries].contiguous(), points[queries:].contiguous()


def nearest_ours(queries: int, bank: int, d: int) -> Work:
    query, rest = queries_and_bank(queries, bank, d)
    nearest(query[:100], rest)
    return Work(lambda: nearest(query, rest)[1][:, 0])


def nearest_faiss(queries: int, bank: int, d: int) -> Work:
    import faiss

    query, rest = queries_and_bank(queries, bank, d)
    index = faiss.IndexFlatL2(d)
    index.add(rest.numpy())  # not timed, while our preparation of the bank is
    return Work(lambda: index.search(query.numpy(), 1)[1][:, 0])


def nearest_anomalib(queries: int, bank: int, d: int) -> Work:
    from anomalib.models.image.patchcore.torch_model import PatchcoreModel

    query, rest = queries_and_bank(queries, bank, d)
    model = PatchcoreModel(layers=["layer1"], backbone="resnet18", pre_trained=False)
    model.memory_bank = rest
    return Work(lambda: model.nearest_neighbors(query, n_neighbors=1)[1])


def nearest_rows(queries: int, bank: int, d: int) -> list[Row]:
    query, rest = queries_and_bank(queries, bank, d)
    mine = fastest(nearest_ours, queries, bank, d, repeats=3)
    ours = mine.cost
    distance = (query.double() - rest[torch.as_tensor(mine.outcome)].double()).norm(dim=1)
    made = []
    for name, side in (
        ("faiss IndexFlatL2", nearest_faiss),
        ("anomalib's nearest_neighbors", nearest_anomalib),
    ):
        other = fastest(side, queries, bank, d, repeats=3)
        peer, index = other.cost, other.outcome
        # The peers expand |a - b|² in float32 and mistake near ties: their row may be a little farther, never nearer.
        slack = (query.double() - rest[torch.as_tensor(index)].double()).norm(dim=1) / distance - 1
        extra = (
            ""
            if ours.extra_mb is None or peer.extra_mb is None
            else f"{ours.extra_mb:.0f} MB against {peer.extra_mb:.0f}."
        )
        made.append(
            Row(
                path=f"Exact nearest neighbour, {queries} x {d} against {bank:,}",
                peer=name,
                ours=ours,
                theirs=peer,
                measured=peer.wall_s / ours.wall_s,
                goal=Goal(1, "faster"),
                threads=f"{mine.threads}, {other.threads}",
                agree=bool((slack.min() > -1e-6) & (slack.max() < 1e-3)),
                agreement=f"the peer's neighbours are 0 to {float(slack.max()):.0e} farther",
                note=f"Memory beside the inputs: {extra}" if extra else "",
            )
        )
    return made


def rows(*, quick: bool = False) -> list[Row]:
    """The rows of the speed table."""
    return nearest_rows(200, 3000, 256) if quick else nearest_rows(784, 23_520, 1024)
