"""Finds resources and templates for a query, beside the tools and without a part in their ranking.

A resource matches if it has most of the query's words, one of them at least in its name, title or URI.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from codemode_server.catalog.catalog import Server
from codemode_server.catalog.resources import Resource, ServerResources
from codemode_server.catalog.stored_results import stored_in_value
from codemode_server.catalog.tool_lines import refusal_line
from codemode_server.domain.tools import Refusal
from codemode_server.search.words import stems

MAX_SHOWN = 3
_MAX_INDEXED = 2_000
"""Resources and templates of one server that can be found."""
_MAX_WORDS = 12
_DESCRIPTION_CHARACTERS = 400
_MIN_SHARE = 0.5
"""Share of the query's words that a resource must have."""
_NAME_WEIGHT = 2.0
_GENERIC = frozenset(stems("read get show open list find search resource resources template file document content"))
"""Stems that say nothing of a single resource."""


@dataclass(frozen=True, slots=True)
class _Words:
    """The resources of one server by the stems in their names and descriptions."""

    named: dict[str, list[int]]
    described: dict[str, list[int]]


def matching_resources(servers: Iterable[Server], query: str) -> tuple[Resource, ...]:
    """The best matches of all these servers."""
    asked = [stem for stem in dict.fromkeys(stems(query)) if stem not in _GENERIC][:_MAX_WORDS]
    if not asked:
        return ()
    found = [match for server in servers if server.listing.resources for match in _matches(server, asked)]
    found.sort(key=lambda match: (-match[0], match[1].path))
    return tuple(resource for _, resource in found[:MAX_SHOWN])


def resource_line(resource: Resource, refusal: Refusal | None) -> str:
    """A match as the model sees it."""
    mark = f"  [{refusal_line(refusal)}]" if refusal else ""
    return f"{resource.import_line}; {resource.read_line}  # {resource.summary}{mark}"


def resource_json(resource: Resource, refusal: Refusal | None) -> dict[str, Any]:
    """A match as programs get it."""
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
    words = _words_of(server.resources)
    hits: dict[int, float] = {}
    names: set[int] = set()
    shares: dict[int, int] = {}
    for stem in asked:
        named, described = set(words.named.get(stem, ())), set(words.described.get(stem, ()))
        names |= named
        for number in named | described:
            shares[number] = shares.get(number, 0) + 1
            hits[number] = hits.get(number, 0.0) + (_NAME_WEIGHT if number in named else 1.0)
    for number in names:
        if shares[number] >= _MIN_SHARE * len(asked):
            yield hits[number], server.resources.all[number]


@stored_in_value
def _words_of(resources: ServerResources) -> _Words:
    named: dict[str, list[int]] = {}
    described: dict[str, list[int]] = {}
    for number, resource in enumerate(resources.all[:_MAX_INDEXED]):
        it = resource.definition
        for stem in set(stems(f"{it.name} {it.title or ''} {it.public_uri[:400]}")) - _GENERIC:
            named.setdefault(stem, []).append(number)
        for stem in set(stems(it.description[:_DESCRIPTION_CHARACTERS])) - _GENERIC:
            described.setdefault(stem, []).append(number)
    return _Words(named, described)
