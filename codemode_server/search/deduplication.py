"""Tools that several servers offer alike → one result with the names of the others.

The same `fetch` comes with many servers, and two servers may stand for one service. Whether tools are alike is read off
their names, parameters and descriptions; never within one server, where likeness is no accident. Words of a server's
own name tell services apart: `create_issue` of GitHub is none of GitLab's.
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
"""Length of the part of a description that is compared."""
_ALIKE, _ALIKE_WITH_PARAMETERS = 0.8, 0.5
"""How much of the words of two descriptions is the same: without common parameters, and with three."""
_PARAMETERS_ALIKE = 0.5
_MANY = 3


@dataclass(frozen=True, slots=True)
class Folded:
    """One place in the results."""

    best: Scored
    also: tuple[Tool, ...] = ()
    """The same of other servers, best first."""


@dataclass(frozen=True, slots=True)
class _Read:
    """A tool as sets of words, but for its name."""

    server: frozenset[str]
    parameters: frozenset[str]
    sentence: frozenset[str]
    description: frozenset[str]


def folded(ranked: Iterable[Scored], is_available: Callable[[Tool], bool]) -> list[Folded]:
    """What is ranked, in its order. Of tools that are alike the first shows, or the first that can be called."""
    places: list[list[Scored]] = []
    by_name: dict[frozenset[str], list[int]] = {}
    for scored in ranked:
        named = by_name.setdefault(_name(scored.thing), []) if isinstance(scored.thing, Tool) else []
        same = next((place for place in named if _takes(places[place], scored.thing)), None)
        if same is not None:
            places[same].append(scored)
        else:
            named.append(len(places))
            places.append([scored])
    return [_place(place, is_available) for place in places]


def _place(alike: list[Scored], is_available: Callable[[Tool], bool]) -> Folded:
    best = next((one for one in alike if isinstance(one.thing, Tool) and is_available(one.thing)), alike[0])
    others = (one.thing for one in alike if one is not best)
    return Folded(best, tuple(thing for thing in others if isinstance(thing, Tool))[:_MAX_ALSO])


def _takes(place: list[Scored], thing: Findable) -> bool:
    tools = [one.thing for one in place if isinstance(one.thing, Tool)]
    if not isinstance(thing, Tool) or any(tool.server == thing.server for tool in tools):
        return False
    return _is_alike(_read(tools[0]), _read(thing))


def _is_alike(one: _Read, other: _Read) -> bool:
    if not one.description or not other.description:
        return False
    parameters = _common(one.parameters, other.parameters)
    if (one.parameters or other.parameters) and parameters < _PARAMETERS_ALIKE:
        return False
    if _names_itself(one, other) and _names_itself(other, one):
        return False
    shared = min(len(one.parameters & other.parameters), _MANY) / _MANY
    needed = _ALIKE - (_ALIKE - _ALIKE_WITH_PARAMETERS) * parameters * shared
    said = max(_common(one.sentence, other.sentence), _common(one.description, other.description))
    return said >= needed


def _names_itself(one: _Read, other: _Read) -> bool:
    """Whether what it says names its server, and the other does not name that one."""
    return bool(one.server & one.description - other.description - other.server)


def _common(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one or other else 1.0


@stored_in_value
def _read(tool: Tool) -> _Read:
    properties = (
        tool.definition.input_schema.get("properties") if isinstance(tool.definition.input_schema, dict) else {}
    )
    named = list(properties)[:100] if isinstance(properties, dict) else []
    return _Read(
        _terms(tool.server),
        frozenset("".join(letter for letter in str(one).lower() if letter.isalnum()) for one in named),
        _terms(first_sentence(tool.definition.description, 200)),
        _terms(tool.definition.description[:_READ_CHARACTERS]),
    )


@stored_in_value
def _name(tool: Tool) -> frozenset[str]:
    said = _words(tool.raw_name)
    return said - _words(tool.server) or said


def _terms(text: str) -> frozenset[str]:
    """Stems, and names in camelCase as one word besides: `GitHub` is what a server named `github` is for."""
    return frozenset(stems(text))


def _words(text: str) -> frozenset[str]:
    return frozenset(stem(word.lower()) for word in words(text))
