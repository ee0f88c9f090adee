"""The JSON API, read from its OpenAPI description and made ready to be shown: on /api/docs and in the documentation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def api_groups(description: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The routes of an OpenAPI description by tag, ready to be shown."""
    groups: dict[str, list[dict[str, Any]]] = {}
    schemas = description.get("components", {}).get("schemas", {})
    for path, methods in description["paths"].items():
        for method, route in methods.items():
            bodies: list[dict[str, Any]] = list(route.get("requestBody", {}).get("content", {}).values())
            good: list[dict[str, Any]] = [answer for code, answer in route["responses"].items() if code[0] == "2"]
            answer = good[0].get("content", {}).get("application/json", {}).get("schema") if good else None
            shown = {
                "method": method.upper(),
                "path": path,
                "summary": route.get("description", ""),
                "parameters": [_parameter(one) for one in route.get("parameters", [])],
                "body": _example(bodies[0].get("schema") if bodies else None, schemas),
                "answer": _example(answer, schemas),
            }
            groups.setdefault(route.get("tags", ["station"])[0], []).append(shown)
    yield from groups.items()


def _parameter(one: dict[str, Any]) -> dict[str, str]:
    schema = one.get("schema", {})
    kind = schema.get("type") or " or ".join(str(part.get("type")) for part in schema.get("anyOf", []))
    return {
        "name": one["name"],
        "where": one["in"],
        "type": kind or "text",
        "meaning": one.get("description") or schema.get("description", ""),
    }


def _example(schema: dict[str, Any] | None, schemas: dict[str, Any]) -> str:
    return "" if not schema else json.dumps(_shape(schema, schemas), indent=2, ensure_ascii=False)


def _shape(schema: dict[str, Any], schemas: dict[str, Any]) -> Any:
    """A schema as the value it describes, with types in the place of values."""
    if "$ref" in schema:
        return _shape(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if "anyOf" in schema:
        parts = [_shape(part, schemas) for part in schema["anyOf"]]
        return parts[0] if not isinstance(parts[0], str) else " | ".join(str(part) for part in parts)
    if "enum" in schema:
        return " | ".join(str(value) for value in schema["enum"])
    if schema.get("type") == "array":
        return [_shape(schema.get("items", {}), schemas)]
    if "properties" in schema:
        return {name: _shape(part, schemas) for name, part in schema["properties"].items()}
    return schema.get("const") or schema.get("format") or schema.get("type", "anything")
