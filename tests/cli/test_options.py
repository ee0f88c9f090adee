"""Options that several commands take: one text and one default each."""

from __future__ import annotations

from collections import defaultdict

import pytest
import typer

from sparcal.cli import app
from sparcal.cli.line import line_app


def parameters(commands, name):
    return {p.name: p for p in typer.main.get_command(commands).commands[name].params}


def stated(parameter):
    return parameter.help, parameter.default, tuple(parameter.opts), parameter.nargs


@pytest.mark.parametrize("name", ["images", "out", "maps", "overlays", "watch", "idle", "as_json"])
def test_judging_takes_the_same_options_with_and_without_torch(name):
    ours, exported = parameters(app, "score"), parameters(line_app, "score")
    assert stated(exported[name]) == stated(ours[name])


def test_an_option_has_one_text_wherever_it_stands():
    texts = defaultdict(set)
    for command in typer.main.get_command(app).commands.values():
        for parameter in command.params:
            if parameter.name in ("device", "as_json", "operator", "weights") or (
                parameter.name == "station" and parameter.param_type_name == "argument"
            ):
                texts[parameter.name].add(parameter.help)
    assert len(texts) == 5
    assert all(len(found) == 1 for found in texts.values()), texts
