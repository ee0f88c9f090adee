"""What is wrong with a value that somebody sent, in one sentence that people can read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TYPES = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "model_attributes_type": "an object",
    "dict_type": "an object",
}
_LIMITS = {
    "string_too_long": ("have at most {max_length} characters", "shorten it"),
    "string_too_short": ("have at least {min_length} characters", "fill it in"),
    "too_long": ("hold at most {max_length} entries", "leave some out"),
    "too_short": ("hold at least {min_length} entries", "add some"),
    "greater_than": ("be above {gt}", "change it"),
    "greater_than_equal": ("be at least {ge}", "change it"),
    "less_than": ("be below {lt}", "change it"),
    "less_than_equal": ("be at most {le}", "change it"),
    "literal_error": ("be {expected}", "choose one of these"),
    "string_pattern_mismatch": ("hold only what it may hold", "check it"),
    "finite_number": ("be a finite number", "change it"),
}
_WORDS = {str: "a text", bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}


def complaint(problem: Mapping[str, Any]) -> str:
    """One sentence for the first thing that pydantic found."""
    kind, facts, given = problem["type"], problem.get("ctx") or {}, problem.get("input")
    where = ".".join(str(part) for part in problem["loc"][1:]) or "The request"
    if kind == "value_error":
        return str(facts["error"])
    if kind == "missing":
        return f"{where} is missing: fill it in."
    if kind == "extra_forbidden":
        return f"{where} is not known here: leave it out."
    if kind == "json_invalid":
        return "The request must be JSON, got something else: check it."
    if kind in _TYPES:
        return f"{where} must be {_TYPES[kind]}, got {_WORDS.get(type(given), 'nothing')}: change it."
    if kind in _LIMITS:
        expected, remedy = _LIMITS[kind]
        told = expected.format(**facts).replace(" 1 characters", " 1 character").replace(" 1 entries", " 1 entry")
        return f"{where} must {told}, got {_shown(given)}: {remedy}."
    return f"{where} cannot be used: check it."


def _shown(given: object) -> str:
    """Long things by their length, others as they are."""
    if isinstance(given, str | list):
        return str(len(given)) if len(given) > 40 or not isinstance(given, str) else repr(given)
    return str(given)
