"""The local engine: one process or several, workers that die, parents that die."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from sparcal.bench.plan.contenders import resolve_encoder
from sparcal.bench.plan.unit import Unit
from sparcal.bench.run import local_runner
from sparcal.bench.run.folder import open_results, start_results
from sparcal.bench.run.local_runner import run_local
from sparcal.bench.run.workplace import Workplace, thread_budget
from sparcal.errors import DataError
from tests.support import bad_workers
from tests.support.tiny_bench import RESNET, VIT, write_trees

TOML = 'name = "x"\ntitle = "t"\n[[units]]\ndatasets = ["rad"]\nhosts = ["padim"]\n'


def unit(dataset, category, host, seed, *, correction="sparc", encoder=RESNET):
    return Unit(dataset, category, host, correction, 8, seed, "", resolve_encoder(host, other=encoder), "random:0")


def some_units():
    """Two categories, two encoders, and one unit that must fail: MuSc has no reference to align to."""
    return [
        *(unit("rad", "bolt", "padim", seed) for seed in range(3)),
        *(unit("visa", "candle", "anomalydino", seed, encoder=VIT) for seed in range(2)),
        unit("visa", "candle", "musc", 0, correction="coral", encoder=VIT),
    ]


def place(tmp_path, name, units):
    data = {name: str(tmp_path / "data" / name) for name in ("rad", "visa")}
    start_results(tmp_path / name, TOML, units)
    return Workplace(data, str(tmp_path / name), str(tmp_path / f"cache-{name}"))


def measured(workplace):
    keep = ("unit", "base_image_auroc", "corrected_image_auroc", "base_aupro_0.3", "corrected_aupro_0.3", "calibration")
    return [{name: row[name] for name in keep} for row in open_results(Path(workplace.results)).rows()]


@pytest.mark.slow
def test_several_processes_do_what_one_does(tmp_path):
    write_trees(tmp_path / "data")
    units = some_units()
    alone, together = place(tmp_path, "alone", units), place(tmp_path, "together", units)
    seen = []
    failures = [
        run_local(units, alone, workers=1, progress=lambda *numbers: seen.append(numbers)),
        run_local(units, together, workers=2, progress=lambda *numbers: seen.append(numbers)),
    ]
    assert measured(alone) == measured(together)
    assert len(measured(alone)) == 5
    for failed in failures:
        assert [str(one.unit) for one in failed] == ["visa candle musc coral k=8 seed=0"]
        assert failed[0].reason.startswith("Coral needs the reference features")
    assert seen[5] == seen[11] == (6, 6, 1)
    assert [done for done, _, _ in seen[6:]] == list(range(1, 7))


def test_a_worker_that_dies_is_replaced_and_its_unit_tried_again(tmp_path, monkeypatch):
    monkeypatch.setattr(local_runner, "_serve", bad_workers.serve_badly)
    units = [unit("rad", category, "padim", seed) for category in ("bolt", "tape") for seed in (0, 1, 2, 3)]
    workplace = place(tmp_path, "r", units)
    seen = []
    failed = run_local(units, workplace, workers=2, progress=lambda *numbers: seen.append(numbers))
    reasons = {str(one.unit): one.reason for one in failed}
    assert set(reasons) == {str(units[i]) for i in (1, 3, 5, 7)}
    assert "died with exit code 7, 2 times" in reasons[str(units[1])]
    assert reasons[str(units[3])] == "It failed."
    assert seen[-1] == (8, 8, 4)
    assert set(open_results(Path(workplace.results)).failures()) == {units[1].hash, units[5].hash}


def test_an_interrupted_run_ends_its_workers(tmp_path, monkeypatch):
    monkeypatch.setattr(local_runner, "_serve", bad_workers.wait_forever)
    units = [unit("rad", "bolt", "padim", seed) for seed in range(2)]
    workplace = place(tmp_path, "r", units)

    def interrupt(*_):
        deadline = time.monotonic() + 60
        while not Path(workplace.cache).exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        raise KeyboardInterrupt

    monkeypatch.setattr(local_runner._Team, "next_answers", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_local(units, workplace, workers=2)
    child = int(Path(workplace.cache).read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_ctrl_c_is_heard_by_the_run_alone_and_a_dismissed_worker_puts_away_what_it_writes(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(local_runner, "_serve", bad_workers.write_forever)
    units = [unit("rad", "bolt", "padim", seed) for seed in range(2)]
    workplace = place(tmp_path, "r", units)
    rows = Path(workplace.results) / "units"

    def interrupt(*_):
        deadline = time.monotonic() + 60
        while not Path(workplace.cache).exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert list(rows.iterdir())
        worker = int(Path(workplace.cache).read_text())
        os.kill(worker, signal.SIGINT)  # as a terminal does, to every process of the run
        time.sleep(0.5)
        os.kill(worker, 0)  # it lives
        raise KeyboardInterrupt

    monkeypatch.setattr(local_runner._Team, "next_answers", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_local(units, workplace, workers=2)
    assert list(rows.iterdir()) == []
    assert capfd.readouterr() == ("", "")
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_threads_are_limited_and_given_back():
    import torch

    before = torch.get_num_threads()
    with thread_budget(3):
        assert torch.get_num_threads() == 3
    assert torch.get_num_threads() == before
    with pytest.raises(DataError, match="A process needs at least 1 thread, got 0"):
        Workplace({}, "", "", threads=0)
