"""Groups equivalent tools of several servers into one result that names the others.

Many servers have the same `fetch`, and one service may have two servers. Tools are compared by name, parameters and
description, and never with tools of the same server, whose similarity is intended. Words of a server's own name
distinguish services: `create_issue` of GitHub differs from GitLab's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from codemode_server.catalog.catalog import Tool
from codemode_server.catalog.naming import words
from codemode_server.search.ranking import Scored
from codemode_server.search.words import stem, stems

_MAX_ALSO = 20
_READ_CHARACTERS = 400
_MIN_OVERLAP, _MIN_OVERLAP_WITH_PARAMETERS = 0.8, 0.5
"""Minimum share of common words in two descriptions: without common parameters, and with `_MANY` of them."""
_MIN_PARAMETER_OVERLAP = 0.5
_MANY = 3


class _WordSets(NamedTuple):
    name: frozenset[str]
    """Without those of its server, unless there are no others."""
    server: frozenset[str]
    parameters: frozenset[str]
    summary: frozenset[str]
    description: frozenset[str]


def deduplicated(ranked: Iterable[Scored], is_available: Callable[[Tool], bool]) -> list[Scored]:
    """One of each group, in the order of their best members: the first tool that can be called, else the first."""
    groups: list[list[Scored]] = []
    by_name: dict[frozenset[str], list[list[Scored]]] = {}
    for scored in ranked:
        tool = scored.thing
        same_name = by_name.setdefault(_word_sets(tool).name, []) if isinstance(tool, Tool) else []
        group = next((group for group in same_name if isinstance(tool, Tool) and _belongs(group, tool)), None)
        if group is None:
            group = []
            groups.append(group)
            same_name.append(group)
        group.append(scored)
    return [_shown(group, is_available) for group in groups]


def _shown(alike: list[Scored], is_available: Callable[[Tool], bool]) -> Scored:
    best = next((one for one in alike if isinstance(one.thing, Tool) and is_available(one.thing)), alike[0])
    others = (one.thing for one in alike if one is not best)
    return replace(best, also=tuple(thing for thing in others if isinstance(thing, Tool))[:_MAX_ALSO])


def _belongs(group: list[Scored], tool: Tool) -> bool:
    members = [one.thing for one in group if isinstance(one.thing, Tool)]
    if any(member.server == tool.server for member in members):
        return False
    one, other = _word_sets(members[0]), _word_sets(tool)
    if not one.description or not other.description:
        return False
    parameters = _overlap(one.parameters, other.parameters)
    if parameters < _MIN_PARAMETER_OVERLAP or (_names_itself(one, other) and _names_itself(other, one)):
        return False
    shared = min(len(one.parameters & other.parameters), _MANY) / _MANY
    needed = _MIN_OVERLAP - (_MIN_OVERLAP - _MIN_OVERLAP_WITH_PARAMETERS) * parameters * shared
    return max(_overlap(one.summary, other.summary), _overlap(one.description, other.description)) >= needed


def _names_itself(one: _WordSets, other: _WordSets) -> bool:
    """True if the description of `one` names its own server and the description of `other` does not."""
    return bool(one.server & one.description - other.description - other.server)


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one or other else 1.0


@lru_cache(maxsize=1_000)
def _word_sets(tool: Tool) -> _WordSets:
    schema, description = tool.definition.input_schema, tool.definition.description
    properties = schema.get("properties") if isinstance(schema, dict) else None
    parameters = list(properties)[:100] if isinstance(properties, dict) else []
    name, server = ({stem(word.lower()) for word in words(text)} for text in (tool.raw_name, tool.server))
    return _WordSets(
        frozenset(name - server or name),
        frozenset(stems(tool.server)),
        frozenset("".join(letter for letter in str(one).lower() if letter.isalnum()) for one in parameters),
        frozenset(stems(tool.summary)),
        frozenset(stems(description[:_READ_CHARACTERS])),
    )
