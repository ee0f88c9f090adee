"""Whatever the OpenAPI description allows, and what it forbids: no answer is a server error, and none is undescribed."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as with_seed
from hypothesis.errors import Unsatisfiable

from sparcal.server.settings import WebSettings
from sparcal.server.web.app import create_app
from sparcal.station.station import Station
from tests.support.served import build_station

schemathesis = pytest.importorskip("schemathesis", minversion="4")  # older ones go with old versions of starlette
GenerationMode = schemathesis.GenerationMode

TOKEN = "correct horse battery"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
QUICK, THOROUGH = 30, 200  # requests tried per operation
MODES = {"allowed": GenerationMode.POSITIVE, "forbidden": GenerationMode.NEGATIVE}


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    folder = tmp_path_factory.mktemp("schema") / "line-3"
    parts = build_station(folder, train=4, good=3, bad=0)
    Station.open(folder).calibrate([content for _, content in parts.good], "L1", operator="M. Weber")
    app = create_app(WebSettings(folder, token=TOKEN, names=("testserver",)), worker=False)
    return schemathesis.openapi.from_asgi("/openapi.json", app, headers=BEARER)


@pytest.mark.parametrize(
    ("mode", "examples", "seed"),
    [pytest.param(mode, QUICK, None, id=name) for name, mode in MODES.items()]
    + [pytest.param(mode, THOROUGH, 1, id=f"{name}-thorough", marks=pytest.mark.slow) for name, mode in MODES.items()],
)
def test_no_request_makes_the_server_fail(described, mode, examples, seed):
    tried = Counter()
    for found in described.get_all_operations():
        operation = found.ok()

        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=seed is None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def probe(case):
            response = case.call(headers=BEARER)
            tried[case.operation.label] += 1
            what = (case.operation.label, response.status_code, response.content[:300], case.as_curl_command())
            assert response.status_code < 500, what
            if response.status_code >= 400:
                assert set(response.json()) == {"error"}, what
            else:
                case.operation.validate_response(response)

        with suppress(Unsatisfiable):  # an operation without parameters cannot be called wrongly
            (probe if seed is None else with_seed(seed)(probe))()
    print(f"{tried.total()} requests to {len(tried)} operations, no server error")
    assert len(tried) >= (25 if mode is GenerationMode.POSITIVE else 15), tried
