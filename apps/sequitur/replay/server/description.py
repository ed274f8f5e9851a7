"""The routes of the server, and what /openapi.json says of them."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from sequitur.replay.server.models import Problem

_SCHEMAS = "#/components/schemas/{model}"


@dataclass(frozen=True, slots=True)
class Route:
    """One route.

    name: of the operation. method, path: of the request; `{id}` in a path is the only parameter
    there is. about: one line.
    do: what is done: (what is asked, id) → the answer. gives: the answer. asks: the body, or of a
    GET the query's parameters; None: nothing. changes: whether it needs the token. status: of a
    request that is fulfilled.
    """

    name: str
    method: str
    path: str
    about: str
    do: Callable[[Any, str], Awaitable[BaseModel]]
    gives: type[BaseModel]
    asks: type[BaseModel] | None = None
    changes: bool = False
    status: int = 200


def openapi(routes: Sequence[Route], open_reading: bool) -> dict[str, Any]:
    """Describe routes as OpenAPI 3.1.

    Args:
        routes: all that the server has.
        open_reading: whether reading needs no token.
    """
    bodies = {each.asks for each in routes if each.asks and each.method != "GET"}
    answers = {Problem, *(each.gives for each in routes)}
    models: list[Any] = [(each, "validation") for each in bodies]
    models += [(each, "serialization") for each in answers]
    models.sort(key=lambda each: str(each[0].__name__))
    found, components = models_json_schema(models, ref_template=_SCHEMAS)
    schemas: dict[Any, Any] = dict(found)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        good = {"description": "Done.", "content": _json(schemas[route.gives, "serialization"])}
        bad = {"description": "Not done.", "content": _json(schemas[Problem, "serialization"])}
        operation: dict[str, Any] = {
            "summary": route.about,
            "operationId": route.name,
            "responses": {str(route.status): good, "default": bad},
            "parameters": _parameters(route),
        }
        if route.asks is not None and route.method != "GET":
            content = _json(schemas[route.asks, "validation"])
            operation["requestBody"] = {"required": True, "content": content}
        if route.changes or not open_reading:
            operation["security"] = [{"token": []}]
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Sequitur replay server",
            "version": "1",
            "description": "What was published can be found, and published again.",
        },
        "paths": paths,
        "components": {
            "schemas": components["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _parameters(route: Route) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if "{id}" in route.path:
        found.append({"name": "id", "in": "path", "required": True, "schema": {"type": "string"}})
    if route.asks is not None and route.method == "GET":
        schema = route.asks.model_json_schema()
        found += [
            {"name": name, "in": "query", "schema": each}
            for name, each in schema["properties"].items()
        ]
    return found
