"""Answers a query for resources or prompts in general, which no tool of that name and no single resource answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from codemode_server.catalog.catalog import Server
from codemode_server.catalog.unknown_members import FOR_THE_USER, prompt_title
from codemode_server.catalog.untrusted import joined_within
from codemode_server.search.words import stems

_MAX_SERVERS = 10
_MAX_PROMPTS = 30
_PROMPT_CHARACTERS = 600
_RESOURCE, _PROMPT = stems("resource"), stems("prompt")
_IN_GENERAL = frozenset(
    stems("read get show open list find search use see all any available what which mcp server api template user")
)
"""Stems that say nothing of a single resource or prompt."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What servers offer beside their tools: a few lines for the model, and dicts for programs."""

    text: str
    records: tuple[dict[str, Any], ...]


def offers_for(servers: Iterable[Server], query: str) -> tuple[Offer, ...]:
    """Usually none; `list the resources of github` asks for those of one server."""
    asked = set(stems(query))
    rest = asked - {*_RESOURCE, *_PROMPT} - _IN_GENERAL
    found: list[Offer] = []
    if asked.issuperset(_RESOURCE):
        found += _resources([server for server in servers if server.listing.resources and rest <= _stems_of(server)])
    if asked.issuperset(_PROMPT):
        found += _prompts(list(islice(_titles(servers, rest), _MAX_PROMPTS)))
    return tuple(found)


def _resources(servers: Sequence[Server]) -> Iterator[Offer]:
    if not servers:
        return
    lines = ['resources; list_dir("/servers/<server>/resources") lists them:']
    lines += [f"  {server.name}: {server.resources.usage_line}" for server in servers[:_MAX_SERVERS]]
    if len(servers) > _MAX_SERVERS:
        lines.append(f'  and {len(servers) - _MAX_SERVERS:,} more servers; list_dir("/servers") counts them')
    yield Offer("\n".join(lines), tuple(map(_record, servers)))


def _record(server: Server) -> dict[str, Any]:
    found = server.resources
    return {
        "server": server.name,
        "name": found.module,
        "kind": "resources",
        "path": f"/servers/{server.name}/{found.module}",
        "import": found.import_line,
        "description": found.counts,
    }


def _prompts(titles: Sequence[tuple[str, str]]) -> Iterator[Offer]:
    if titles:
        records = (
            {"server": server, "name": title, "kind": "prompt", "description": FOR_THE_USER} for server, title in titles
        )
        yield Offer(f"{FOR_THE_USER}: {joined_within((it for _, it in titles), _PROMPT_CHARACTERS)}", tuple(records))


def _titles(servers: Iterable[Server], words: set[str]) -> Iterator[tuple[str, str]]:
    """The prompts whose name, or that of their server, has all these words: each with its server."""
    for server in servers:
        for prompt in server.prompts:
            if words <= {*_stems_of(server), *stems(prompt.name)}:
                yield server.name, prompt_title(server.name, prompt)


def _stems_of(server: Server) -> set[str]:
    return set(stems(f"{server.raw_name} {server.name}"))
