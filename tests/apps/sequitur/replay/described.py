"""A client that knows nothing of the replay server but what /openapi.json says."""

import asyncio
from typing import Any

from aiohttp import ClientError, ClientSession


class DescribedClient:
    """Calls operations by their ids, and holds what goes in and comes out against their schemas."""

    def __init__(self, session: ClientSession, url: str, token: str) -> None:
        self._session, self._url, self._token = session, url, token
        self.description: dict[str, Any] = {}
        self.operations: dict[str, tuple[str, str, dict[str, Any]]] = {}
        self.called: set[str] = set()

    async def learn(self) -> None:
        """Read the description, once the server is there."""
        while not self.description:
            try:
                async with self._session.get(f"{self._url}/openapi.json") as answer:
                    self.description = await answer.json()
            except (OSError, ClientError):
                await asyncio.sleep(0.05)
        for path, methods in self.description["paths"].items():
            for method, operation in methods.items():
                self.operations[operation["operationId"]] = (method, path, operation)

    async def call(
        self, name: str, asked: Any = None, *, id: str = "", status: int | None = None
    ) -> Any:
        """Call an operation; the answer has the status that is described, or this other one."""
        method, path, operation = self.operations[name]
        self.called.add(name)
        given: dict[str, Any] = {}
        if "requestBody" in operation:
            if status is None:
                schema = operation["requestBody"]["content"]["application/json"]["schema"]
                assert problems(schema, asked, self.description) == []
            given["json"] = asked
        elif asked:
            known = {each["name"] for each in operation["parameters"] if each["in"] == "query"}
            assert status is not None or set(asked) <= known
            given["params"] = asked
        if "security" in operation:
            given["headers"] = {"Authorization": f"Bearer {self._token}"}
        url = f"{self._url}{path.format(id=id)}"
        async with self._session.request(method, url, **given) as answer:
            found = await answer.json()
            known = operation["responses"]
            assert str(answer.status) in known or status is not None, (name, found)
            assert status in (None, answer.status), found
            described = known.get(str(answer.status), known["default"])
            schema = described["content"]["application/json"]["schema"]
            assert problems(schema, found, self.description) == [], found
        return found


_KINDS: dict[str, Any] = {
    "object": dict, "array": list, "string": str, "integer": int, "number": (int, float),
    "boolean": bool, "null": type(None),
}  # fmt: skip
_KNOWN = {
    *("$ref", "type", "properties", "required", "additionalProperties", "items", "prefixItems"),
    *("minItems", "maxItems", "enum", "const", "anyOf", "minLength", "maxLength", "minimum"),
    *("maximum", "exclusiveMaximum", "minProperties", "maxProperties", "title", "description"),
    *("default", "propertyNames"),
}


def problems(schema: Any, value: Any, root: Any, where: str = "$") -> list[str]:
    """What of a value is not as a JSON schema says, as far as our schemas go."""
    assert set(schema) <= _KNOWN, schema
    if "$ref" in schema:
        found = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        return problems(found, value, root, where)
    if "anyOf" in schema:
        tried = [problems(each, value, root, where) for each in schema["anyOf"]]
        return [] if [] in tried else [f"{where}: none of {tried}"]
    kind = schema.get("type")
    is_bool = isinstance(value, bool)
    if kind is not None and (
        not isinstance(value, _KINDS[kind]) or (is_bool and kind not in ("boolean",))
    ):
        return [f"{where}: {value!r} is no {kind}"]
    if value not in schema.get("enum", [value]) or value != schema.get("const", value):
        return [f"{where}: {value!r} is not among {schema}"]
    found = []
    if isinstance(value, dict):
        named, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        found += [f"{where}: no {name}" for name in schema.get("required", ()) if name not in value]
        for name, each in value.items():
            found += problems(schema.get("propertyNames", {}), name, root, f"{where}.{name}")
            if name in named or isinstance(others, dict):
                found += problems(named.get(name, others), each, root, f"{where}.{name}")
            elif not others:
                found.append(f"{where}: {name} is not described")
        if len(value) < schema.get("minProperties", 0):
            found.append(f"{where}: too few")
    if isinstance(value, list):
        firsts = schema.get("prefixItems", [])
        for at, each in enumerate(value):
            of = firsts[at] if at < len(firsts) else schema.get("items", {})
            found += problems(of, each, root, f"{where}[{at}]")
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            found.append(f"{where}: {len(value)} items")
    if isinstance(value, str) and not (
        schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
    ):
        found.append(f"{where}: {len(value)} characters")
    if isinstance(value, int | float) and not is_bool:
        low, high = schema.get("minimum", value), schema.get("maximum", value)
        if not (low <= value <= high and value < schema.get("exclusiveMaximum", value + 1)):
            found.append(f"{where}: {value}")
    return found
