"""The OpenAPI description: what FastAPI knows of its routes, the plain ones, bodies, tokens and problems."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.routing import Route

from nearcast.server.message_bodies import ARROW, LINES, OBJECTS
from nearcast.server.parameters import QUERIES, REQUIRED
from nearcast.server.problems import PROBLEM_TYPE
from nearcast.server.tokens import SCOPES

_OBJECT: dict[str, Any] = {"type": "object"}
_LIST: dict[str, Any] = {"type": "array", "items": _OBJECT}
_TEXT: dict[str, Any] = {"type": "string"}
_NUMBER: dict[str, Any] = {"type": "number"}
_REF = "#/components/schemas/"

#: The bodies that routes take, by method and path: content types with their schemas.
_BODIES: dict[tuple[str, str], dict[str, dict[str, Any]]] = {
    ("post", "/v1/subscriptions"): {"application/json": {"oneOf": [{"$ref": f"{_REF}Subscription"}, _LIST]}},
    ("put", "/v1/subscriptions/{id}"): {"application/json": {"$ref": f"{_REF}Subscription"}},
    ("patch", "/v1/subscriptions/{id}"): {"application/merge-patch+json": _OBJECT},
    ("post", "/v1/subscriptions/{id}:test"): {"application/json": {"$ref": f"{_REF}Trial"}},
    ("post", "/v1/messages"): {
        **{name: {"oneOf": [{"$ref": f"{_REF}Message"}, _LIST]} for name in OBJECTS},
        **dict.fromkeys(LINES, _TEXT),
        **{name: {"type": "string", "format": "binary"} for name in ARROW},
    },
    ("post", "/v1/locations"): {"application/json": {"type": "array", "items": {"$ref": f"{_REF}Location"}}},
    ("put", "/v1/subscribers/{id}"): {"application/json": {"$ref": f"{_REF}Subscriber"}},
    ("patch", "/v1/subscribers/{id}"): {"application/merge-patch+json": _OBJECT},
    ("put", "/v1/subscribers/{id}/location"): {"application/json": {"$ref": f"{_REF}Location"}},
    ("post", "/v1/subscribers/{id}/ack"): {"application/json": {"$ref": f"{_REF}Ack"}},
    ("post", "/v1/explain"): {"application/json": {"$ref": f"{_REF}Question"}},
    ("post", "/v1/estimate"): {"application/json": _OBJECT},
    ("post", "/v1/tokens"): {"application/json": {"$ref": f"{_REF}NewToken"}},
}
#: What plain routes answer with when they succeed, unless that is 200.
_STATUSES = {
    ("POST", "/v1/messages"): "202",
    ("POST", "/v1/locations"): "202",
    ("POST", "/v1/subscribers/{id}/ack"): "204",
}
#: Routes whose POST may be sent again under a key; any other does nothing, or the same again.
_KEYED = (
    "/v1/subscriptions",
    "/v1/messages",
    "/v1/locations",
    "/v1/tokens",
    "/v1/replay",
    "/v1/deliveries:resend",
    "/v1/dead-letters:resend",
    "/v1/subscribers/{id}:rotate",
    "/v1/backup",
)
_OPEN = ("/healthz", "/readyz")
_SCHEMAS: dict[str, Any] = {
    "Subscription": {
        "type": "object",
        "description": "The columns of a subscription (docs/columns.md), and what the server keeps beside them.",
        "properties": {
            "id": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,100}$"},
            "kind": {"enum": ["within", "similar", "topk"]},
            "query": _TEXT,
            "lon": _NUMBER,
            "lat": _NUMBER,
            "radius_m": _NUMBER,
            "region": _OBJECT,
            "expires": {"type": "string", "format": "date-time"},
            "subscriber": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,100}$"},
            "labels": {"type": "object", "additionalProperties": _TEXT},
            "max_events": {"type": "integer", "minimum": 1},
            "paused": {"type": "boolean"},
        },
    },
    "Message": {
        "type": "object",
        "description": "A GeoJSON Feature, or the columns of a message.",
        "properties": {"type": _TEXT, "id": {}, "geometry": _OBJECT, "properties": _OBJECT},
    },
    "Question": {"type": "object", "properties": {"message": _OBJECT, "subscription": {}, "place": {}}},
    "Trial": {"type": "object", "properties": {"message": _OBJECT, "place": {}, "send": {"type": "boolean"}}},
    "Location": {
        "type": "object",
        "required": ["lon", "lat"],
        "properties": {"subscriber": _TEXT, "id": _TEXT, "lon": _NUMBER, "lat": _NUMBER, "time": _TEXT},
    },
    "Subscriber": {
        "type": "object",
        "properties": {
            "sink": {"type": ["object", "null"]},
            "paused": {"type": "boolean"},
            "cooldown": {"type": ["string", "null"]},
            "digest": {"type": ["string", "null"]},
            "once_per_message": {"type": "boolean"},
            "debounce": {"type": ["string", "null"]},
        },
    },
    "Ack": {"type": "object", "required": ["cursor"], "properties": {"cursor": _TEXT}},
    "NewToken": {
        "type": "object",
        "required": ["scopes"],
        "properties": {
            "scopes": {"type": "array", "items": {"enum": list(SCOPES)}},
            "subscriber": _TEXT,
            "name": _TEXT,
            "expires": {"type": "string", "format": "date-time"},
        },
    },
    "Problem": {
        "type": "object",
        "required": ["type", "title", "status", "detail", "instance"],
        "properties": {
            "type": _TEXT,
            "title": _TEXT,
            "status": {"type": "integer"},
            "detail": _TEXT,
            "instance": _TEXT,
            "errors": _LIST,
        },
    },
}


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI description of an app, made once."""
    if app.openapi_schema is None:
        found = get_openapi(title=app.title, version=app.version, routes=app.routes)
        for route in app.routes:
            if type(route) is Route and route.include_in_schema and route.path != "/openapi.json":
                _add_plain(found["paths"], route)
        for path, methods in found["paths"].items():
            for method, operation in methods.items():
                _complete(operation, method, path)
        found["components"] = {
            "schemas": _SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "nc_…"}},
        }
        app.openapi_schema = found
    return app.openapi_schema


def _add_plain(paths: dict[str, Any], route: Route) -> None:
    """Add a plain Starlette route, described by its endpoint's docstring."""
    named = {"name": "id", "in": "path", "required": True, "schema": _TEXT}
    path = route.path_format
    parameters = [named] if "{id}" in path else []
    for method in sorted((route.methods or set()) - {"HEAD"}):
        status = _STATUSES.get((method, path), "200")
        paths.setdefault(path, {})[method.lower()] = {
            "operationId": route.name,
            "summary": (route.endpoint.__doc__ or "").partition("\n")[0],
            "parameters": parameters,
            "responses": {status: {"description": "done"}},
        }


def _complete(operation: dict[str, Any], method: str, path: str) -> None:
    """Add the parameters and the body of an operation, the token that it needs, and problems for all else."""
    for name, schema in QUERIES.get((method.upper(), path), {}).items():
        parameter: dict[str, Any] = {"name": name, "in": "query", "schema": schema}
        if (method.upper(), path, name) in REQUIRED:
            parameter["required"] = True
        operation.setdefault("parameters", []).append(parameter)
    content = _BODIES.get((method, path))
    if content is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {name: {"schema": schema} for name, schema in content.items()},
        }
    if method == "post" and path in _KEYED:
        key = {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string", "maxLength": 255}}
        operation.setdefault("parameters", []).append(key)
    if path not in _OPEN:
        operation["security"] = [{"token": []}, {}]
    responses = operation["responses"]
    responses.pop("422", None)
    responses.pop("default", None)
    if path == "/v1/subscriptions/{id}" and method == "put":
        responses["201"] = {"description": "made"}
    if path == "/v1/subscriptions" and method == "post":
        responses["200"] = {"description": "checked, or many"}
    for each in responses.values():
        each.pop("content", None)
    problem = {PROBLEM_TYPE: {"schema": {"$ref": f"{_REF}Problem"}}}
    responses["default"] = {"description": "a problem (RFC 9457)", "content": problem}
