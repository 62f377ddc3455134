"""Groups equivalent tools of several servers into one result that names the others.

Many servers have the same `fetch`, and one service may have two servers. Tools are compared by name, parameters and
description, and never with tools of the same server, whose similarity is intended. Words of a server's own name
distinguish services: `create_issue` of GitHub differs from GitLab's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from codemode_server.catalog.catalog import Tool
from codemode_server.catalog.naming import words
from codemode_server.catalog.stored_results import stored_in_value
from codemode_server.catalog.untrusted import first_sentence
from codemode_server.search.documents import Findable
from codemode_server.search.ranking import Scored
from codemode_server.search.words import stem, stems

_MAX_ALSO = 20
_READ_CHARACTERS = 400
"""Length of the prefix of a description that is compared."""
_MIN_OVERLAP, _MIN_OVERLAP_WITH_PARAMETERS = 0.8, 0.5
"""Minimum share of common words in two descriptions: without common parameters, and with `_MANY` of them."""
_MIN_PARAMETER_OVERLAP = 0.5
_MANY = 3


@dataclass(frozen=True, slots=True)
class ResultGroup:
    """One result and the equivalent tools of other servers."""

    best: Scored
    also: tuple[Tool, ...] = ()
    """Equivalent tools of other servers, best first."""


@dataclass(frozen=True, slots=True)
class _WordSets:
    """The words of a tool, without its name."""

    server: frozenset[str]
    parameters: frozenset[str]
    sentence: frozenset[str]
    description: frozenset[str]


def deduplicated(ranked: Iterable[Scored], is_available: Callable[[Tool], bool]) -> list[ResultGroup]:
    """Groups in the order of their best members; each shows the first tool that can be called, else the first."""
    groups: list[list[Scored]] = []
    by_name: dict[frozenset[str], list[int]] = {}
    for scored in ranked:
        same_name = by_name.setdefault(_name(scored.thing), []) if isinstance(scored.thing, Tool) else []
        same = next((number for number in same_name if _belongs(groups[number], scored.thing)), None)
        if same is not None:
            groups[same].append(scored)
        else:
            same_name.append(len(groups))
            groups.append([scored])
    return [_group(group, is_available) for group in groups]


def _group(alike: list[Scored], is_available: Callable[[Tool], bool]) -> ResultGroup:
    best = next((one for one in alike if isinstance(one.thing, Tool) and is_available(one.thing)), alike[0])
    others = (one.thing for one in alike if one is not best)
    return ResultGroup(best, tuple(thing for thing in others if isinstance(thing, Tool))[:_MAX_ALSO])


def _belongs(group: list[Scored], thing: Findable) -> bool:
    tools = [one.thing for one in group if isinstance(one.thing, Tool)]
    if not isinstance(thing, Tool) or any(tool.server == thing.server for tool in tools):
        return False
    return _is_alike(_word_sets(tools[0]), _word_sets(thing))


def _is_alike(one: _WordSets, other: _WordSets) -> bool:
    if not one.description or not other.description:
        return False
    parameters = _common(one.parameters, other.parameters)
    if (one.parameters or other.parameters) and parameters < _MIN_PARAMETER_OVERLAP:
        return False
    if _names_itself(one, other) and _names_itself(other, one):
        return False
    shared = min(len(one.parameters & other.parameters), _MANY) / _MANY
    needed = _MIN_OVERLAP - (_MIN_OVERLAP - _MIN_OVERLAP_WITH_PARAMETERS) * parameters * shared
    common = max(_common(one.sentence, other.sentence), _common(one.description, other.description))
    return common >= needed


def _names_itself(one: _WordSets, other: _WordSets) -> bool:
    """True if the description of `one` names its own server and the description of `other` does not."""
    return bool(one.server & one.description - other.description - other.server)


def _common(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one or other else 1.0


@stored_in_value
def _word_sets(tool: Tool) -> _WordSets:
    properties = (
        tool.definition.input_schema.get("properties") if isinstance(tool.definition.input_schema, dict) else {}
    )
    names = list(properties)[:100] if isinstance(properties, dict) else []
    return _WordSets(
        _terms(tool.server),
        frozenset("".join(letter for letter in str(one).lower() if letter.isalnum()) for one in names),
        _terms(first_sentence(tool.definition.description, 200)),
        _terms(tool.definition.description[:_READ_CHARACTERS]),
    )


@stored_in_value
def _name(tool: Tool) -> frozenset[str]:
    found = _words(tool.raw_name)
    return found - _words(tool.server) or found


def _terms(text: str) -> frozenset[str]:
    """Stems, with camelCase names also as one word, so that `GitHub` matches a server named `github`."""
    return frozenset(stems(text))


def _words(text: str) -> frozenset[str]:
    return frozenset(stem(word.lower()) for word in words(text))
