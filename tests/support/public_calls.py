"""A good call of every public function and method, so that tests can spoil its arguments one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import sparcal
from sparcal import CORRECTIONS, DETECTORS, SPARC, Features, Scores, Station
from sparcal.bench.metrics import AuproAccumulator, aupro, auroc, paper_metrics
from sparcal.bench.stats import average_categories, average_groups, defined_mean, holm, wilcoxon_greater
from sparcal.detectors import AnomalyCLIP, MuSc, WinCLIP
from sparcal.export.lot import export_lot
from sparcal.export.runner import load_exported
from sparcal.neighbours import Bank, greedy_coreset, nearest
from tests.support.tiny_station import TinyEncoder, demo, pictures


@dataclass(frozen=True)
class Call:
    """A function, and arguments that it takes.

    Args:
        fresh: arguments that must be made anew for each call, for instance a folder that does not exist yet.
    """

    name: str
    function: Callable[..., object]
    arguments: dict[str, Any]
    fresh: dict[str, Callable[[], object]]

    def __call__(self, **changed: object) -> object:
        made = {name: make() for name, make in self.fresh.items()}
        return self.function(**{**self.arguments, **made, **changed})


def features(n: int = 4, *, seed: int = 0, cls: bool = False) -> Features:
    random = torch.Generator().manual_seed(seed)
    return Features((torch.randn(n, 3, 3, 5, generator=random),), torch.randn(n, 4, generator=random) if cls else None)


def call(name: str, function: Callable[..., object], fresh: dict[str, Any] | None = None, /, **arguments: Any) -> Call:
    return Call(name, function, arguments, fresh or {})


def _of_the_method(_root: Path) -> Iterator[Call]:
    normals, train, test = features(4), features(12, seed=1), features(3, seed=2)
    fitted = SPARC().fit(normals)
    scores = Scores(torch.zeros(3), torch.zeros(3, 2, 2))
    yield call("SPARC.fit", SPARC().fit, calibration=normals, reference=train)
    yield call("SPARC.apply", fitted.apply, features=test)
    yield call("SPARC.apply_reference", fitted.apply_reference, reference=train)
    yield call("Features.cat", Features.cat, parts=[normals, train])
    yield call("Features.__getitem__", test.__getitem__, index=1)
    yield call("Features.map", test.map, change=torch.abs)
    yield call("Features.to", test.to, device="cpu")
    yield call("Scores.__getitem__", scores.__getitem__, index=[0, 1])
    pair = {"correction": SPARC(), "detector": DETECTORS["padim"]()}
    yield call("score_lot", sparcal.score_lot, test=test, reference=train, calibration=normals, **pair)
    for name, entry in CORRECTIONS.items():
        ready = entry().fit(normals, train)
        yield call(f"{name}.fit", entry().fit, calibration=normals, reference=train)
        yield call(f"{name}.apply", ready.apply, features=test)
        yield call(f"{name}.apply_reference", ready.apply_reference, reference=train)
    yield from _of_text_detectors()
    for name in ("patchcore", "padim", "spade", "subspacead", "anomalydino", "fastrecon", "fastref", "winclip"):
        kind = DETECTORS[name]
        yield call(f"{name}.fit", kind().fit, reference=train)
        yield call(f"{name}.score", kind().fit(train).score, features=test)


def _of_text_detectors() -> Iterator[Call]:
    """Those that compare image vectors: with each other, or with texts."""
    train, test = features(12, seed=1, cls=True), features(3, seed=2, cls=True)
    yield call("musc.fit", MuSc().fit, reference=train)
    yield call("musc.score", MuSc().fit(None).score, features=test)
    for name, kind, width in (("winclip", WinCLIP, 5), ("anomalyclip", AnomalyCLIP, 4)):
        texts = torch.randn(2, width, generator=torch.Generator().manual_seed(3))
        yield call(f"{name}.with_text", kind().with_text, text=texts)
    texts = torch.randn(2, 4, generator=torch.Generator().manual_seed(3))
    spoken = Features((torch.randn(3, 3, 3, 4),), test.cls)
    ready = AnomalyCLIP().with_text(texts)
    yield call("anomalyclip.fit", ready.fit, reference=train)
    yield call("anomalyclip.score", ready.fit(None).score, features=spoken)
    zero = WinCLIP(mode="zero_shot").with_text(texts)
    yield call("winclip zero-shot.fit", zero.fit, reference=train)


def _of_numbers(_root: Path) -> Iterator[Call]:
    points = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    yield call("auroc", auroc, labels=[0, 0, 1, 1], scores=[0.1, 0.4, 0.35, 0.8])
    mask, heat = np.eye(6, dtype=bool), np.arange(36.0).reshape(6, 6)
    yield call("aupro", aupro, masks=[mask], maps=[heat], fpr_limits=(0.3,))
    yield call("paper_metrics", paper_metrics, labels=[0, 1], scores=[0.1, 0.4], regions=[(mask, heat)] * 2)
    started = AuproAccumulator()
    started.update(mask, heat)
    yield call("AuproAccumulator.update", AuproAccumulator().update, mask=mask, score_map=heat)
    yield call("AuproAccumulator.compute", started.compute, fpr_limits=(0.3,))
    yield call("wilcoxon_greater", wilcoxon_greater, deltas=[0.3, 1.2, 0.8])
    yield call("holm", holm, p_values=[0.04, 0.01, 0.5])
    yield call("average_categories", average_categories, table=np.ones((2, 3)))
    yield call("average_groups", average_groups, groups=[average_categories(np.ones((2, 3)))])
    yield call("defined_mean", defined_mean, values=np.array([1.0, np.nan]))
    yield call("nearest", nearest, queries=points[:3], bank=points, k=2, squared=False, memory=10**8)
    yield call("greedy_coreset", greedy_coreset, points=points, size=5, start=0, initial=points[:, 0].abs())
    yield call("Bank.of", Bank.of, rows=points, memory=10**8, like=Bank.of(points))


def _of_files(root: Path) -> Iterator[Call]:
    saved = sparcal.save(SPARC(rank=2), root / "sparc.safetensors")
    yield call("save", sparcal.save, thing=SPARC(), path=root / "again.safetensors")
    yield call("load", sparcal.load, path=saved, kinds=(), device="cpu")
    spec = {"weights": None, "recipe": None, "device": "cpu", "precision": None, "runtime": None}
    yield call("load_encoder", sparcal.load_encoder, name="bundled?size=64", **spec)
    own = {"encoder": "bundled?size=64", "weights": None, "prompts": None, "category": None, "settings": None}
    yield call("load_host", sparcal.load_host, name="padim", device="cpu", precision=None, runtime=None, **own)
    parts = pictures(demo().train[:2])
    yield call("encode", sparcal.encode, encoder=TinyEncoder(), images=parts, batch_size=2, device="cpu", progress=None)


def _of_stations(root: Path) -> Iterator[Call]:
    train, good = pictures(demo().train), pictures(demo("moved").lot_good)
    numbers = iter(range(10**6))
    station = Station.fit(train[:10], "padim", path=root / "station", encoder=TinyEncoder())
    lot = station.calibrate(good[:3], "L1", correction="sparc")
    judged = lot.score(good[3:5])
    new_path = {"path": lambda: root / f"new {next(numbers)}"}
    asked = {"encoder": TinyEncoder(), "weights": None, "detector": None, "features": None, "operator": "Ada"}
    asked |= {"workers": 1, "insist": False, "device": "cpu", "runtime": None, "progress": None}
    yield call("Station.fit", Station.fit, new_path, images=train[:4], host="padim", **asked)
    opened = {"weights": None, "workers": 1, "kinds": (), "device": "cpu", "encoder": TinyEncoder(), "runtime": None}
    yield call("Station.open", Station.open, path=station.path, **opened)
    grown = Station.fit(train[:4], "padim", path=root / "grown", encoder=TinyEncoder())
    yield call("Station.add", grown.add, images=train[:1], operator="Ada", insist=False, progress=None)
    new_name = {"name": lambda: f"lot {next(numbers)}"}
    how = {
        "correction": "identity",
        "operator": "Ada",
        "false_reject": 0.05,
        "activate": False,
        "reason": None,
        "progress": None,
    }
    yield call("Station.calibrate", station.calibrate, new_name, normals=good[:2], **how)
    yield call("Station.check", station.check, normals=good[:2])
    yield call("Station.self_test", station.self_test, lot="L1", n=6, seed=0)
    yield call("Station.lot", station.lot, name="L1")
    yield call("Station.activate", station.activate, name="L1", operator="Ada", reason="a test")
    yield call("Station.set_threshold", station.set_threshold, name="L1", image=1.0, pixel=2.0, operator="Ada")
    yield call("Station.compare", station.compare, first="L1", second=None)
    yield call("Lot.score", lot.score, images=good[3:4], progress=None)
    yield call("Lot.stream", lambda sources: list(lot.stream(sources)), sources=good[3:4])
    yield call("Lot.effect_of", lot.effect_of, threshold=1.0)
    yield call("Lot.monitor", lot.monitor, one_in=1000)
    yield call("Monitor.watch", lot.monitor().watch, judgement=judged[0])
    target = {"target": lambda: root / f"state {next(numbers)}.safetensors"}
    yield call("export_lot", export_lot, target, lot=lot, format="state")
    yield call("load_exported", load_exported, path=root / "model.onnx", state=None)


# One call of everything that docs/reference/python.md lists; files and stations are made in the folder that is given.
GROUPS: dict[str, Callable[[Path], Iterator[Call]]] = {
    "the method": _of_the_method,
    "numbers": _of_numbers,
    "files": _of_files,
    "stations": _of_stations,
}
