"""The API as it is shown: every route in a group, with the shape of what goes in and comes out."""

from __future__ import annotations

import json

from fastapi import FastAPI
from pydantic import BaseModel

from sparcal.server.web.api_shapes import api_groups
from sparcal.server.web.app import add_api


class Answer(BaseModel):
    name: str
    parts: list[int]
    note: str | None


def test_a_route_shows_its_parameters_and_shapes():
    app = FastAPI()

    @app.put("/lots/{number}", tags=["lots"])
    def put(number: int, body: Answer) -> Answer:  # noqa: ARG001
        """Say something about a lot."""
        return body

    ((tag, (route,)),) = api_groups(app.openapi())
    assert (tag, route["method"], route["path"]) == ("lots", "PUT", "/lots/{number}")
    assert route["summary"] == "Say something about a lot."
    assert [(one["name"], one["where"], one["type"]) for one in route["parameters"]] == [("number", "path", "integer")]
    shape = {"name": "string", "parts": ["integer"], "note": "string | null"}
    assert json.loads(route["body"]) == json.loads(route["answer"]) == shape


def test_every_route_of_the_station_is_in_one_group():
    app = FastAPI()
    add_api(app)
    description = app.openapi()
    shown = [(route["path"], route["method"].lower()) for _, routes in api_groups(description) for route in routes]
    assert sorted(shown) == sorted(
        (path, method) for path, methods in description["paths"].items() for method in methods
    )
    assert len(shown) > 20
