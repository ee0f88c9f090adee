"""A station keeps the runtime that it was fitted with: fit, calibrate and score with it, and no other by mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from sparcal.encoders import runtime_choice
from sparcal.encoders.compiled import CompiledEncoder
from sparcal.encoders.timm import TimmEncoder
from sparcal.errors import ArtifactError, DataError, MissingExtraError
from sparcal.export.lot import export_lot
from sparcal.rendering.parts import make_demo
from sparcal.server.work.loaded import Loaded
from sparcal.station import making
from sparcal.station.recorded_runtime import check_recorded_runtime
from sparcal.station.station import Station
from tests.support.tiny_station import TinyEncoder
from tests.test_runtimes import without

ENCODER = "timm:test_resnet.r160_in1k?resize=square&size=64"
PARTS = make_demo(3, train=10, good=8, bad=4, shift="moved", size=64)
TRAIN, NORMALS = [part.image for part in PARTS.train], [part.image for part in PARTS.lot_good[:4]]
LOT = [part.image for part in (*PARTS.lot_good[4:], *PARTS.lot_bad)]


def fit(path, **settings):
    return Station.fit(TRAIN, "patchcore", path=path, encoder=ENCODER, weights="random:0", **settings)


@pytest.fixture(scope="module")
def station(tmp_path_factory):
    """A station that onnxruntime computes, with a lot."""
    fitted = fit(tmp_path_factory.mktemp("stations") / "onnx", runtime="onnx")
    fitted.calibrate(NORMALS, "L1", correction="sparc")
    return fitted.path


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """What a station says that torch computes."""
    fitted = fit(tmp_path_factory.mktemp("stations") / "torch")
    return fitted.calibrate(NORMALS, "L1", correction="sparc").score(LOT)


def test_it_judges_as_a_station_of_torch_does_and_torch_computes_no_image(station, verdicts, monkeypatch):
    opened = Station.open(station)
    lot = opened.lot("L1")
    lot.score(LOT[:1])  # compiles
    monkeypatch.setattr(TimmEncoder, "__call__", lambda *_: pytest.fail("PyTorch's network was called"))
    judged = lot.score(LOT)
    assert [x.verdict for x in judged] == [x.verdict for x in verdicts]
    scores, expected = (torch.tensor([x.score for x in y]) for y in (judged, verdicts))
    assert torch.allclose(scores, expected, rtol=2e-3)


def test_the_record_names_the_runtime_and_the_features_are_its_own(station):
    record = json.loads((station / "station.json").read_text())
    assert record["encoder"] == f"{ENCODER}&runtime=onnx"
    assert record["encoder_id"].endswith("&runtime=onnx")
    assert Station.open(station).store().encoder_id == record["encoder_id"]
    store = type(Station.open(station).store())(
        station / "features", record["encoder_id"].removesuffix("&runtime=onnx")
    )
    with pytest.raises(ArtifactError, match="must be of the encoder"):
        store.refresh()


def test_torch_goes_unsaid(tmp_path):
    record = fit(tmp_path / "station", runtime="torch").record
    assert record.encoder == ENCODER
    assert "runtime" not in record.encoder_id
    assert record.runtime_sentence is None


def test_it_opens_with_its_own_runtime_and_no_other(station):
    before = {path: path.read_bytes() for path in station.rglob("*") if path.is_file()}
    for runtime in (None, "auto", "onnx"):
        assert Station.open(station, runtime=runtime).encoder.runtime == "onnx"
    with pytest.raises(DataError, match="was fitted with the runtime onnx, got torch: leave --runtime out") as refused:
        Station.open(station, runtime="torch")
    assert str(refused.value).endswith("or fit another station with torch.")
    with pytest.raises(DataError, match="There is no runtime 'tensorrt'"):
        Station.open(station, runtime="tensorrt")
    assert {path: path.read_bytes() for path in station.rglob("*") if path.is_file()} == before


def test_the_web_stations_worker_follows(station):
    assert Loaded(station).station.encoder.runtime == "onnx"


def test_a_station_of_torch_is_not_opened_with_another():
    with pytest.raises(DataError, match="The station s was fitted with the runtime torch, got openvino"):
        check_recorded_runtime(Path("s"), "bundled?size=64&weights=x", "openvino")


def test_a_runtime_that_is_not_installed_is_missed_when_it_is_needed(station, monkeypatch):
    without(monkeypatch, "onnxruntime")
    opened = Station.open(station)
    assert [lot.name for lot in opened.lots()] == ["L1"]  # looking needs no encoder
    sentence = "was fitted with the runtime onnx, which needs onnxruntime, and that is not installed: run pip install"
    with pytest.raises(MissingExtraError, match=sentence):
        opened.lot("L1").score(LOT[:1])
    with pytest.raises(MissingExtraError, match=sentence):
        Station.open(station, runtime="auto")


def test_it_computes_on_the_processor_whatever_cards_there_are(station, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert Station.open(station).device.type == "cpu"
    with pytest.raises(DataError, match="The runtime onnx computes on the processor, got the device cuda:0"):
        Station.open(station, device="cuda")


def test_it_is_exported_from_torch(station, tmp_path):
    path = export_lot(Station.open(station).lot("L1"), tmp_path / "L1.safetensors", format="state")
    assert path.is_file()


class Chosen:
    """In place of measuring: takes onnx, and notes on what."""

    def __init__(self):
        self.images = []

    def __call__(self, encoder, images):
        self.images += images
        return runtime_choice.RuntimeChoice(CompiledEncoder(encoder, "onnx"), "The encoder is computed by onnx: fast.")


def test_auto_is_settled_on_a_few_of_the_images_and_recorded(tmp_path, monkeypatch):
    chosen = Chosen()
    monkeypatch.setattr(making, "choose_runtime", chosen)
    fitted = fit(tmp_path / "station", runtime="auto")
    assert [image.shape for image in chosen.images] == [(3, 64, 64)] * making.MEASURED
    assert fitted.record.encoder == f"{ENCODER}&runtime=onnx"
    assert fitted.record.runtime_sentence == "The encoder is computed by onnx: fast."
    assert Station.open(fitted.path).record == fitted.record
    grown = fitted.add(NORMALS)
    assert (grown.record.encoder_id, grown.record.runtime_sentence) == (
        fitted.record.encoder_id,
        fitted.record.runtime_sentence,
    )
    assert len(chosen.images) == making.MEASURED


def test_auto_goes_on_as_the_work_that_was_cut_short_began(tmp_path, monkeypatch):
    def killed(*_given, **_named):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(making, "fit_reference", killed)
        with pytest.raises(KeyboardInterrupt):
            fit(tmp_path / "station")
    monkeypatch.setattr(making, "choose_runtime", Chosen())
    fitted = fit(tmp_path / "station", runtime="auto")
    assert fitted.record.encoder == ENCODER
    assert fitted.record.runtime_sentence == "The encoder is computed by torch, as the fit that was cut short began."


def test_images_that_cannot_be_read_are_told_of_by_the_intake(tmp_path):
    (tmp_path / "broken.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match="A station needs at least 2 usable images of good parts, got 0"):
        Station.fit([tmp_path / "broken.png"], path=tmp_path / "s", encoder=ENCODER, weights="random:0", runtime="auto")


def test_an_encoder_object_brings_its_own_runtime(tmp_path):
    with pytest.raises(
        DataError, match=r"The encoder that was given is computed by torch, got runtime='onnx': load it with"
    ):
        Station.fit(TRAIN, path=tmp_path / "station", encoder=TinyEncoder(), runtime="onnx")
    assert not (tmp_path / "station" / "station.json").exists()
