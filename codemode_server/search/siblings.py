"""Suggests tools of the best result's server that a program is likely to need as well.

`read_issue(issue_number)` is rarely called without `list_issues`, which returns the number. A tool scores higher the
more words of its name and required parameters it shares with the best result; tools that list or read get a bonus.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

from codemode_server.catalog.catalog import Server, Tool
from codemode_server.catalog.json_schema import required_of
from codemode_server.catalog.naming import words
from codemode_server.catalog.stored_results import stored_in_value
from codemode_server.domain.tools import Effect
from codemode_server.search.actions import is_reading, is_verb, kind_of
from codemode_server.search.words import is_stop_word, stem

MAX_SIBLINGS = 2
_MAX_COMPARED = 300
"""Maximum number of tools of one server that are compared."""
_PRODUCES = 2.0
"""Weight of a tool that reads or lists the thing that a required parameter of the best result is named after."""
_READS = 0.5


@dataclass(frozen=True, slots=True)
class _Traits:
    """The properties by which tools are compared."""

    topic: frozenset[str]
    """Stems of its name, without verbs."""
    required: frozenset[str]
    """Raw names of its required parameters."""
    required_stems: frozenset[str]
    """Stems of those names."""
    reads: bool


def siblings(server: Server, best: Tool, shown: Iterable[Tool], is_callable: Callable[[Tool], bool]) -> list[Tool]:
    """The most likely tools, best first; each can be called and has something in common with the best result."""
    hidden = {tool.name for tool in shown if tool.server == server.name}
    scored = [(_score(tool, best, server), tool) for tool in server.tools[:_MAX_COMPARED] if tool.name not in hidden]
    likely = sorted((pair for pair in scored if pair[0] > _READS), key=lambda pair: -pair[0])
    return list(islice((tool for _, tool in likely if is_callable(tool)), MAX_SIBLINGS))


def _score(tool: Tool, best: Tool, server: Server) -> float:
    mine, its = _traits(tool), _traits(best)
    spread = _spread(server)
    # A word that all names of the server contain counts for nothing.
    shared = sum(1 - spread[word] / (len(server.tools) + 1) for word in mine.topic & its.topic)
    parameters = len((mine.required & its.required) - server.usual_parameters)
    produces = mine.reads and bool(mine.topic & its.required_stems)
    return shared + parameters + _PRODUCES * produces + _READS * mine.reads


@stored_in_value
def _traits(tool: Tool) -> _Traits:
    schema = tool.definition.input_schema
    required = frozenset(required_of(schema) if isinstance(schema, dict) else ())
    reads = tool.effect is Effect.READS or is_reading(kind_of(tool.raw_name, tool.definition.description))
    return _Traits(_stems(tool.raw_name), required, frozenset().union(*map(_stems, required)), reads)


@stored_in_value
def _spread(server: Server) -> Counter[str]:
    """The number of the server's tools whose name has each word."""
    return Counter(word for tool in server.tools[:_MAX_COMPARED] for word in _traits(tool).topic)


def _stems(name: str) -> frozenset[str]:
    found = (word.lower() for word in words(name[:100]))
    plain = (word for word in found if not is_stop_word(word) and not is_verb(word))
    return frozenset(stem(word) for word in plain if word not in ("id", "name"))
