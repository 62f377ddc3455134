"""Finds resources and templates for a query, beside the tools and without a part in their ranking.

A resource matches if it has most of the query's words, one of them at least in its name, title or URI; or all of
several words in its description.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from codemode_server.catalog.catalog import Server
from codemode_server.catalog.resources import Resource, ServerResources
from codemode_server.catalog.tool_lines import refusal_line
from codemode_server.domain.tools import Refusal
from codemode_server.search.words import stems

MAX_SHOWN = 3
_MAX_INDEXED = 2_000
_MAX_WORDS = 12
_DESCRIPTION_CHARACTERS = 400
_MIN_SHARE = 0.5
_NAME_WEIGHT = 2.0
_GENERIC = frozenset(stems("read get show open list find search resource resources template file document content"))
"""Stems that say nothing of a single resource."""


def matching_resources(servers: Iterable[Server], query: str) -> tuple[Resource, ...]:
    asked = [stem for stem in dict.fromkeys(stems(query)) if stem not in _GENERIC][:_MAX_WORDS]
    if not asked:
        return ()
    found = [match for server in servers if server.listing.resources for match in _matches(server, asked)]
    found.sort(key=lambda match: (-match[0], match[1].path))
    return tuple(resource for _, resource in found[:MAX_SHOWN])


def resource_line(resource: Resource, refusal: Refusal | None) -> str:
    mark = f"  [{refusal_line(refusal)}]" if refusal else ""
    return f"{resource.import_line}; {resource.read_line}.text  # {resource.summary}{mark}"


def resource_json(resource: Resource, refusal: Refusal | None) -> dict[str, Any]:
    return ({"unavailable": refusal_line(refusal)} if refusal else {}) | {
        "server": resource.server,
        "name": resource.name,
        "kind": "template" if resource.is_template else "resource",
        "path": resource.path,
        "import": resource.import_line,
        "description": resource.summary,
        "signature": resource.read_line,
    }


def _matches(server: Server, asked: list[str]) -> Iterable[tuple[float, Resource]]:
    hits = [dict(_holders(server.resources).get(stem, ())) for stem in asked]
    for number in set[int]().union(*hits):
        found = [by_number[number] for by_number in hits if number in by_number]
        if len(found) >= _MIN_SHARE * len(asked) if any(found) else len(found) == len(asked) > 1:
            yield sum(_NAME_WEIGHT if is_named else 1.0 for is_named in found), server.resources.all[number]


@lru_cache(maxsize=100)
def _holders(resources: ServerResources) -> dict[str, list[tuple[int, bool]]]:
    """For each stem the numbers of the resources that have it, and whether their name, title or URI does."""
    found: dict[str, list[tuple[int, bool]]] = {}
    for number, resource in enumerate(resources.all[:_MAX_INDEXED]):
        it = resource.definition
        named = set(stems(f"{it.name} {it.title or ''} {it.public_uri[:400]}"))
        for stem in (named | set(stems(it.description[:_DESCRIPTION_CHARACTERS]))) - _GENERIC:
            found.setdefault(stem, []).append((number, stem in named))
    return found
