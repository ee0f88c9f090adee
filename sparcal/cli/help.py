"""How a command explains itself: arguments by their names, values by what a person would call them."""

from __future__ import annotations

import re
from typing import Any

from typer import Typer
from typer.core import TyperArgument, TyperCommand

_WORDS = {"str": "TEXT", "path": "PATH", "file": "PATH", "int": "NUMBER", "float": "NUMBER"}
_TYPE = re.compile(r"<(?:list\[)?([^<>\]]*?)(?: range)?\]?>")


class PlainCommand(TyperCommand):
    """A command whose help says STATION and NUMBER where Typer says {station} and <int range>."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters; arguments have their names in capitals, in the help and in complaints alike."""
        parameters = super().get_params(ctx)
        for one in parameters:
            if isinstance(one, TyperArgument) and one.metavar is None:
                one.metavar = one.name.upper()
        return parameters

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What follows the command's name: options, then each argument."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Two lists: the arguments, then the options."""
        parameters = self.get_params(ctx)
        arguments = [(one.metavar, one.help or "") for one in parameters if isinstance(one, TyperArgument)]
        records = [one.get_help_record(ctx) for one in parameters if not isinstance(one, TyperArgument)]
        options = [(_TYPE.sub(_in_words, record[0]), record[1]) for record in records if record is not None]
        for title, rows in (("Arguments", arguments), ("Options", options)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def explain_plainly(app: Typer) -> None:
    """Let every command of an application, and of its groups, explain itself so."""
    for command in app.registered_commands:
        command.cls = PlainCommand
    for group in app.registered_groups:
        if group.typer_instance is not None:
            explain_plainly(group.typer_instance)


def _in_words(found: re.Match[str]) -> str:
    name = found.group(1)
    return _WORDS.get(name.lower(), name)
