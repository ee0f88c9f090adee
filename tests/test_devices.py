"""Devices by name; and that everything between pixels and scores stays on the device where the encoder put it."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from sparcal.artifacts import load, save
from sparcal.calibration.sight import SKETCH
from sparcal.corrections import CORRECTIONS
from sparcal.devices import encoder_device, find_device, float64_device, full_float32
from sparcal.errors import DataError
from sparcal.imaging.encode import encode
from sparcal.imaging.maps import MapRule, input_map
from sparcal.neighbours import Bank, greedy_coreset, nearest
from sparcal.station.station import Station
from sparcal.testing.expectations import close_scores, tensors_of
from sparcal.testing.made_features import normal_features
from sparcal.types import Scores
from tests.detectors.test_contract import CASES as DETECTORS
from tests.encoders.test_contract import CASES as ENCODERS
from tests.support import spy_device
from tests.support.spy_device import SPY_DEVICE
from tests.support.tiny_station import TinyEncoder, demo, pictures

made = normal_features((3, 4, 6), (2, 2, 9), channels=5)
NORMALS, REFERENCE, TEST = made(4, 0), made(12, 1), made(3, 2)


@pytest.fixture(autouse=True)
def nothing_returned():
    spy_device.returned.clear()


def on_spy(case_detector, case):
    detector = case_detector()
    for name, value in vars(detector).items():
        if isinstance(value, torch.Tensor):
            setattr(detector, name, value.to(SPY_DEVICE))
    normals = case.normals()
    return detector.fit(None if normals is None else normals.to(SPY_DEVICE))


@pytest.mark.parametrize("case", DETECTORS, ids=lambda case: case.name)
def test_a_detector_scores_where_its_features_are(case):
    detector, test = on_spy(case.detector, case), case.test().to(SPY_DEVICE)
    spy_device.returned.clear()  # the coreset is chosen on the processor, and says so
    scores = detector.score(test)
    assert scores.image.device == scores.cell.device == SPY_DEVICE
    assert spy_device.returned == []
    close_scores(Scores(scores.image.cpu(), scores.cell.cpu()), case.fitted().score(case.test()))


@pytest.mark.parametrize("name", CORRECTIONS)
def test_a_correction_corrects_where_its_features_are(name):
    fitted = CORRECTIONS[name]().fit(NORMALS.to(SPY_DEVICE), REFERENCE.to(SPY_DEVICE))
    test, reference = fitted.apply(TEST.to(SPY_DEVICE)), fitted.apply_reference(REFERENCE.to(SPY_DEVICE))
    assert spy_device.returned == []
    expected = CORRECTIONS[name]().fit(NORMALS, REFERENCE)
    for got, wanted in ((test, expected.apply(TEST)), (reference, expected.apply_reference(REFERENCE))):
        for a, b in zip(tensors_of(got), tensors_of(wanted), strict=True):
            assert a.device == SPY_DEVICE
            torch.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", ENCODERS, ids=lambda case: case.name)
def test_an_encoder_takes_pixels_from_anywhere_and_keeps_features_on_its_device(case):
    encoder = case.encoder()
    expected = encoder(case.pixels())
    encoder.model.to(SPY_DEVICE)
    assert encoder_device(encoder) == SPY_DEVICE
    features = encoder(case.pixels())
    assert spy_device.returned == []
    for got, wanted in zip(tensors_of(features), tensors_of(expected), strict=True):
        assert got.device == SPY_DEVICE
        torch.testing.assert_close(got.cpu(), wanted)


@pytest.mark.parametrize("case", ENCODERS, ids=lambda case: case.name)
def test_an_encoder_on_a_card_mixes_no_devices(case, monkeypatch):
    """PyTorch's own tensors without numbers know the rules of CUDA, and run without a card."""
    encoder = case.encoder()
    network = copy.deepcopy(encoder.model)
    monkeypatch.setattr(FakeTensorMode, "avoid_device_init", True)  # it takes the spy for a card, and would ask for it
    with FakeTensorMode():
        for module in network.modules():
            for kept in (module._parameters, module._buffers):
                for name, tensor in kept.items():
                    kept[name] = (
                        None if tensor is None else torch.empty(tensor.shape, dtype=tensor.dtype, device="cuda")
                    )
        features = replace(encoder, model=network)(torch.empty(2, 3, *case.size, device="cuda"))
    assert {x.device for x in tensors_of(features)} == {torch.device("cuda:0")}


@pytest.mark.parametrize("k", [1, 5])
def test_the_search_on_a_device_is_exact_and_stays_there(k):
    queries, rows = torch.randn(40, 24), torch.randn(300, 24).repeat(2, 1)  # every row twice: ties go to the lower
    bank = Bank.of(rows.to(SPY_DEVICE))
    distances, indices = nearest(queries.to(SPY_DEVICE), bank, k=k)
    assert spy_device.returned == []
    squares = (queries[:, None].double() - rows.double()).square().sum(2)
    expected, order = squares.sort(dim=1, stable=True)
    assert torch.equal(indices.cpu(), order[:, :k])
    assert torch.equal(distances.cpu(), expected[:, :k].sqrt().float())


def test_the_coreset_is_chosen_on_the_processor_and_is_the_same():
    points = torch.randn(200, 8)
    members = greedy_coreset(points.to(SPY_DEVICE), 20)
    assert members.device == SPY_DEVICE
    assert torch.equal(members.cpu(), greedy_coreset(points, 20))


def test_maps_are_made_on_the_device():
    cell, rule = torch.rand(2, 4, 5), MapRule(cell_pixels=8)
    heat = input_map(cell.to(SPY_DEVICE), rule)
    assert heat.device == SPY_DEVICE
    assert spy_device.returned == []
    torch.testing.assert_close(heat.cpu(), input_map(cell, rule))


@dataclass
class SpyEncoder(TinyEncoder):
    """The tiny encoder on the spy device; notes how many images it got at a time."""

    device: torch.device = SPY_DEVICE

    def __call__(self, pixels):
        self.batches = [*getattr(self, "batches", ()), len(pixels)]
        return super().__call__(pixels).to(self.device)


def test_encode_batches_for_a_device_and_keeps_features_where_asked():
    images = pictures(demo().lot_good)
    encoder = SpyEncoder()
    encoded = encode(encoder, images)
    assert encoded.features.levels[0].device == SPY_DEVICE
    assert encoder.batches == [16, 8]
    assert spy_device.returned == []
    kept = encode(encoder, images, device="cpu").features.levels[0]
    assert kept.device.type == "cpu"
    torch.testing.assert_close(kept, encode(TinyEncoder(), images).features.levels[0])


@pytest.fixture(scope="module")
def two_stations(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stations")
    images = pictures(demo().train)
    return [
        Station.fit(images, "patchcore", path=folder / name, encoder=encoder)
        for name, encoder in (("cpu", TinyEncoder()), ("spy", SpyEncoder()))
    ]


@pytest.mark.parametrize("correction", ["auto", "sparc", "normals"])
def test_a_station_on_a_device_calibrates_and_judges_as_one_on_the_processor(two_stations, correction):
    lot = demo("lights")
    normals, test = pictures(lot.lot_good[:8]), pictures(lot.lot_good[8:] + lot.lot_bad)
    ours, spied = (station.calibrate(normals, f"lot {correction}", correction=correction) for station in two_stations)
    assert spied.station.device == SPY_DEVICE
    assert spied.record.correction == ours.record.correction
    assert spied.threshold.value == pytest.approx(ours.threshold.value, rel=1e-5)
    assert spied.record.self_test.found == ours.record.self_test.found
    spied.station.lot(spied.name)
    spied.score(test[:1])  # loads what it needs
    spy_device.returned.clear()
    got = spied.score(test)
    cells = got[0].cell.size
    # The map of each image, for people, and the sketch that a monitor reads, here as fine as the map; the features never.
    assert spy_device.returned == [cells, SKETCH * cells] * len(test)
    for one, other in zip(got, ours.score(test), strict=True):
        assert one.score == pytest.approx(other.score, rel=1e-5)
        assert one.verdict == other.verdict
        assert one.heat().shape == other.heat().shape
    monitors = [judging.monitor() for judging in (spied, ours)]
    for one, other in zip(got, ours.score(test), strict=True):  # a monitor sees on a card what it sees elsewhere
        seen, expected = (monitor.read(part) for monitor, part in zip(monitors, (one, other), strict=True))
        np.testing.assert_allclose(seen.to_json(), expected.to_json(), rtol=1e-3, atol=1e-3)


def test_a_station_of_one_device_is_opened_on_another(two_stations):
    test = pictures(demo().lot_good[:3])
    opened = Station.open(two_stations[1].path, encoder=TinyEncoder())
    assert opened.device.type == "cpu"
    for one, other in zip(opened.own().score(test), two_stations[0].own().score(test), strict=True):
        assert one.score == pytest.approx(other.score, rel=1e-5)


def test_a_lot_that_meets_an_unreadable_file_on_a_device_goes_on(two_stations, tmp_path):
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no image")
    images = pictures(demo().lot_good[:2])
    judged = two_stations[1].own().score([images[0], broken, images[1]])
    assert [one.verdict == "error" for one in judged] == [False, True, False]
    assert judged[1].sha256 is not None


def test_what_is_saved_from_a_device_is_the_same_file(tmp_path):
    case = DETECTORS[0]
    fitted = on_spy(case.detector, case)
    save(fitted, tmp_path / "spy.safetensors")
    save(case.fitted(), tmp_path / "cpu.safetensors")
    assert (tmp_path / "spy.safetensors").read_bytes() == (tmp_path / "cpu.safetensors").read_bytes()
    loaded = load(tmp_path / "cpu.safetensors", device=SPY_DEVICE)
    assert loaded.bank_.device == SPY_DEVICE


def test_two_devices_in_one_search_are_refused():
    with pytest.raises(DataError, match=r"^nearest needs both inputs on one device, got cpu and spy:0: move one\.$"):
        nearest(torch.randn(3, 4), torch.randn(5, 4).to(SPY_DEVICE))


def test_auto_is_the_first_card_and_else_the_processor(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert find_device() == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert find_device("auto") == torch.device("cuda:0")


def test_a_card_is_found_by_number(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert find_device("cuda") == torch.device("cuda:0")
    assert find_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(
        DataError, match=r"^The device cuda:2 needs a graphics card .* got cuda:0 to cuda:1 only: choose "
    ):
        find_device("cuda:2")


@pytest.mark.parametrize("name", ["cuda", "cuda:1", "mps"])
def test_a_device_that_is_not_there_is_refused_in_one_sentence(name, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(
        DataError, match=rf"^The device {name} needs .*, got .*: choose cpu, or auto for what there is\.$"
    ):
        find_device(name)


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "cpu:0", "", "CUDA"])
def test_a_device_of_no_known_name_is_refused(name):
    with pytest.raises(DataError, match="^There is no device .*; choose from auto, cpu, cuda, cuda:NUMBER, mps"):
        find_device(name)


def test_apple_cards_have_no_float64_so_features_return_to_the_processor():
    assert float64_device(torch.device("mps")) == torch.device("cpu")
    assert float64_device(torch.device("cuda:1")) == torch.device("cuda:1")


def test_an_encoder_object_that_does_not_say_computes_on_the_processor():
    assert encoder_device(TinyEncoder()) == torch.device("cpu")


def test_an_encoder_object_on_another_device_than_asked_for_is_refused(two_stations):
    with pytest.raises(DataError, match=r"computes on spy:0, got device='cpu': load it with load_encoder"):
        Station.open(two_stations[1].path, encoder=SpyEncoder(), device="cpu")


def test_convolutions_on_a_card_keep_their_digits_and_leave_the_settings_as_they_were():
    before = torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic
    with full_float32(torch.device("cuda:0")):
        assert (torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic) == (False, True)
    assert (torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic) == before


def test_the_spy_refuses_what_a_card_refuses():
    with pytest.raises(RuntimeError, match="one device"):
        torch.ones(3, device=SPY_DEVICE) + torch.ones(3)
    with pytest.raises(RuntimeError):
        torch.ones(3, device=SPY_DEVICE).numpy()
