"""A hub that is away costs seconds, not minutes, and what is cached is still found."""

from __future__ import annotations

import socket
from threading import Event

import pytest
from huggingface_hub import constants

from sparcal.encoders import load_encoder
from sparcal.encoders.hub import asking_the_hub, silence_of_the_hub
from sparcal.errors import WeightsError

pytestmark = pytest.mark.usefixtures("closed")


@pytest.fixture
def closed(monkeypatch):
    """The hub's address is one where nobody listens."""
    with socket.socket() as once:
        once.bind(("127.0.0.1", 0))
        port = once.getsockname()[1]
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")


def test_a_hub_that_listens_is_asked(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        assert silence_of_the_hub() is None
        with asking_the_hub():
            assert not constants.HF_HUB_OFFLINE


def test_a_proxy_is_knocked_at_instead(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("http_proxy", f"127.0.0.1:{server.getsockname()[1]}")
        assert silence_of_the_hub() is None


def test_a_hub_that_is_away_is_not_asked_and_its_cache_is():
    assert silence_of_the_hub() == "127.0.0.1 cannot be reached: Connection refused"
    with asking_the_hub():
        assert constants.HF_HUB_OFFLINE
    assert not constants.HF_HUB_OFFLINE
    with pytest.raises(ConnectionError, match="127.0.0.1 cannot be reached"), asking_the_hub():
        raise ValueError("anything that a library says")
    assert not constants.HF_HUB_OFFLINE


def test_a_name_that_takes_for_ever_to_look_up_is_given_up(monkeypatch):
    waiting = Event()
    monkeypatch.setattr(socket, "create_connection", lambda *_args, **_settings: waiting.wait(5) and socket.socket())
    assert silence_of_the_hub(0.05) == "127.0.0.1 did not answer within 0.05 s"
    waiting.set()


@pytest.mark.parametrize("name", ["timm:resnet18.tv_in1k", "openclip:ViT-B-32/openai"])
def test_one_sentence_names_what_is_missing_and_what_helps(monkeypatch, tmp_path, name):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.delenv("SPARCAL_WEIGHTS", raising=False)
    with pytest.raises(WeightsError, match=r"could not be fetched \(127.0.0.1 cannot be reached: Connection refused\)"):
        load_encoder(name)
