"""Pages that the program writes about itself: a line `<!-- generated: commands -->` becomes the text while building."""

from __future__ import annotations

import re
from collections.abc import Iterator

import typer
from fastapi import FastAPI
from sphinx.application import Sphinx

from sparcal.cli import app as commands
from sparcal.server.web.api_shapes import api_groups
from sparcal.server.web.app import add_api


def command_pages() -> str:
    """Every command with its arguments and options, as `--help` gives them."""
    return "\n".join(_commands(typer.main.get_command(commands), ("sparcal",)))


def _commands(command: object, words: tuple[str, ...]) -> Iterator[str]:
    for name, one in command.commands.items():  # type: ignore[attr-defined]
        if hasattr(one, "commands"):
            yield from _commands(one, (*words, name))
            continue
        call = " ".join((*words, name))
        yield f"## {call}\n\n{_options_as_code(one.help)}\n"
        with one.make_context(call, [], resilient_parsing=True) as context:
            yield f"```text\n{one.get_usage(context).removeprefix('Usage: ')}\n```\n"
            records = [parameter.get_help_record(context) for parameter in one.params]
        yield from (f"`{left}`\n: {_options_as_code(right)}\n" for left, right in filter(None, records))


def _options_as_code(text: str) -> str:
    """Between backticks two hyphens stay two hyphens."""
    return re.sub(r"(?<![\w`-])--[a-z][\w-]*", r"`\g<0>`", text)


def rest_pages() -> str:
    """Every route of the web station, from its OpenAPI description."""
    app = FastAPI()
    add_api(app)
    return "\n".join(_routes(app))


def _routes(app: FastAPI) -> Iterator[str]:
    for tag, routes in api_groups(app.openapi()):
        yield f"## {tag.capitalize()}\n"
        for route in routes:
            yield f"### {route['method']} {route['path']}\n\n{route['summary']}\n"
            if route["parameters"]:
                yield "| parameter | where | type | meaning |\n|---|---|---|---|"
                fields = ("name", "where", "type", "meaning")
                yield "\n".join(
                    "| `{}` | {} | {} | {} |".format(*(_cell(one[name]) for name in fields))
                    for one in route["parameters"]
                )
                yield ""
            for title, shape in (("Takes", route["body"]), ("Answers", route["answer"])):
                if shape:
                    yield f"{title}\n\n```json\n{shape}\n```\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


PAGES = {"commands": command_pages, "rest": rest_pages}


def fill(_: Sphinx, _docname: str, source: list[str]) -> None:
    """Put the text in the place of its line."""
    source[0] = re.sub(r"<!-- generated: (\w+) -->", lambda found: PAGES[found[1]](), source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
