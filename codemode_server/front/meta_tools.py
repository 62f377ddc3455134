"""The answer to `tools/list`: the definition of every meta-tool. Every word costs every user tokens.

What does not depend on the user's servers stays, with the instructions, under 1,200 tokens with the default settings; a
test counts them. A host gets this list before the MCP library is imported, so nothing here imports that library.

Hosts show different parts of it. Some leave out the instructions, Qwen Code shows 150 characters of a description until
the tool is used, Claude Code cuts a description at 2 KB: so each first sentence says what the tool is for, and the
rules for programs are with the argument `code`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from codemode_server.front.listing import Listing
from codemode_server.front.tools.registry import MetaToolSpec, meta_tools
from codemode_server.settings import Settings

if TYPE_CHECKING:
    from pydantic import BaseModel

NO_SERVERS = Listing()

_LOADED_AT_ONCE = {"anthropic/alwaysLoad": True}
"""Without this, Claude Code shows only the names of the tools and finds them by a search that knows no servers."""


def definitions(settings: Settings, servers: Listing = NO_SERVERS) -> list[dict[str, Any]]:
    """Always the same tools, in the same order."""
    return [_definition(spec, settings, servers) for spec in meta_tools().values()]


def _definition(spec: MetaToolSpec[Any], settings: Settings, servers: Listing) -> dict[str, Any]:
    description = spec.describe(settings, servers)
    arguments: type[BaseModel] = spec.arguments
    schema = _schema(arguments)
    properties = {
        name: {**field, **description.arguments.get(name, {})} for name, field in schema["properties"].items()
    }
    has_output_schema = settings.results.structured_content
    return {
        "name": spec.name,
        "title": spec.title,
        "description": description.text,
        "inputSchema": schema | {"properties": properties},
        **({"outputSchema": dict(spec.output_schema)} if has_output_schema else {}),
        "annotations": dict(spec.annotations),
        "_meta": {**_LOADED_AT_ONCE, **spec.meta},
    }


@functools.cache
def _schema(arguments: type[BaseModel]) -> dict[str, Any]:
    """The schema without titles, and without null for optional arguments; null is still accepted.

    pydantic takes milliseconds for each schema, and hosts wait for the list. The result is not to be changed.
    """
    schema = arguments.model_json_schema()
    properties = {name: _property(field) for name, field in schema["properties"].items()}
    dropped = ("title", "description")
    return {key: value for key, value in schema.items() if key not in dropped} | {"properties": properties}


def _property(field: dict[str, Any]) -> dict[str, Any]:
    short = {key: value for key, value in field.items() if key != "title"}
    match short:
        case {"anyOf": [dict(one), {"type": "null"}], "default": None}:
            return one | {key: value for key, value in short.items() if key not in ("anyOf", "default")}
    return short
