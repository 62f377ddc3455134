"""Builds the text about the servers in our tools' descriptions: their names and tools, within a budget of tokens.

First the names of the servers; then, within `_SIGNATURES_SHARE` of the budget, the signatures of the tools that
programs called most; then the names of the other tools, of each server in turn; then their required arguments, and the
key of a result that has only one; then, within the share, signatures with types and results.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice, zip_longest
from typing import NamedTuple

from codemode_server.calls.policy.rules import PermissionRules, Subject
from codemode_server.catalog.catalog import Catalog, Server, Tool
from codemode_server.catalog.json_schema import Parameter, SchemaReader, kinds_of, properties_of
from codemode_server.catalog.returns import declared_result
from codemode_server.config.settings import Settings
from codemode_server.domain.tools import UpstreamState
from codemode_server.search.signatures import brief_signature, result_fields
from codemode_server.search.usage_store import ToolName, Use
from codemode_server.support.field_names import is_declared_name
from codemode_server.support.text import clean_line, counted, first_few
from codemode_server.support.tokens import estimate_tokens, weigh_tokens

_NAMES_CHARACTERS = 80
"""Length of the names in the first sentence: Qwen Code shows the model 150 characters of a description."""
_CHARACTERS_PER_TOKEN = 3.3
"""The listing is bounded by its characters as well: Claude Code cuts a description at 4,096, and names in camel case
have more tokens than estimated. Codex leaves out the descriptions of all arguments if they are long together, so the
listing is in none of them."""
_CHARACTERS_PER_TOKEN_OF_NAMES = 2.8
"""For a list of servers' names alone: each word, number, `_` and comma is a token (`server_number_07, ` has six)."""
_SIGNATURES_SHARE = 0.6
"""The share of the budget that signatures may fill; names and arguments, which spare a search, may fill all of it."""
_SIGNATURE_CHARACTERS = 140
_FIELDS_CHARACTERS = 100
_MAX_OPTIONAL = 2
"""Optional arguments shown of a tool that requires none."""
_MIN_USES = 0.5
"""Below it a tool that was used once is as good as never used."""
_MAX_MISFITS = 20
"""Stop after this many tools that didn't fit."""
_MAX_CANDIDATES = 40
"""Tools looked at: each needs its stub, and the host waits."""
_MAX_REQUIRED = 3
_MAX_CHARACTERS = 150
_PLACEHOLDERS = {"string": '"…"', "integer": "1", "number": "1.5", "boolean": "True"}


@dataclass(frozen=True, slots=True)
class Example:
    """One tool for the texts."""

    path: str
    """For `read_tool`: `servers/git/git_log.py`."""
    program: str


FORM = Example(
    "servers/<server>/<tool>.py",
    'from servers.<server> import <tool>\nfound = <tool>(query="…")\n{"count": len(found), "first": found[:3]}',
)
"""Used if no tool of the user fits: models take a name for that of a tool that is there."""


def example_of(tools: Iterable[Tool], was_used: Callable[[Tool], bool] = lambda _: False) -> Example:
    """An example with a tool `was_used` with arguments, else the one that shows most; among equals the first. None
    that may write is in it."""
    fitting = [tool for tool in islice(tools, _MAX_CANDIDATES) if not tool.may_write and _call(tool)]
    if not fitting:
        return FORM
    chosen = max(fitting, key=lambda it: ("=" in _call(it) and was_used(it), _gives_list(it), "=" in _call(it)))
    last = '{"count": len(found), "first": found[:3]}' if _gives_list(chosen) else "str(found)[:500]"
    program = f"{chosen.import_line}\nfound = {_call(chosen)}\n{last}"
    return Example(chosen.path.removeprefix("/"), program)


def _gives_list(tool: Tool) -> bool:
    return str(tool.returned.type).startswith("list[")


def _call(tool: Tool) -> str:
    """The call with its required arguments; empty if one of them is no plain value, or if it is long."""
    required = [parameter for parameter in tool.parameters if parameter.is_required]
    values = [_placeholder(parameter) for parameter in required]
    arguments = ", ".join(f"{parameter.name}={value}" for parameter, value in zip(required, values, strict=True))
    text = f"{tool.name}({arguments})"
    return text if all(values) and len(required) <= _MAX_REQUIRED and len(text) <= _MAX_CHARACTERS else ""


def _placeholder(parameter: Parameter) -> str:
    schema = parameter.schema if isinstance(parameter.schema, dict) else {}
    kinds = kinds_of(schema)
    return _PLACEHOLDERS.get(kinds[0], "") if len(kinds) == 1 and "enum" not in schema else ""


@dataclass(frozen=True, slots=True)
class Listing:
    """The text about the servers; names and tools are empty if there are none, or if the budget is 0."""

    names: str = ""
    """For the first sentence of `search_tools`: `git, slack and 3 more`."""
    tools: str = ""
    """A line for each server, and below it the signatures of some of its tools."""
    example: Example = FORM

    @property
    def has_tools(self) -> bool:
        """True if it shows tools, not only servers: those that never connected have none."""
        return any(not line.startswith(("servers.", "servers: ")) for line in self.tools.split("\n"))


def listing_of(
    catalog: Catalog, settings: Settings, uses: Mapping[ToolName, Use], redact: Callable[[str], str]
) -> Listing:
    """The listing of all servers that are not switched off, without tools that can't be called or are refused."""
    rules, budget_tokens = PermissionRules(settings.permissions), settings.search.listed_tokens
    offers = [offer for server in catalog.servers if (offer := _Offer.of(server, rules, uses)) is not None]
    if not offers or budget_tokens <= 0:
        return Listing()
    names = _joined([offer.server.name for offer in offers], min(_NAMES_CHARACTERS, budget_tokens))
    left = budget_tokens - estimate_tokens(names)  # in a description
    used = {tool for offer in offers for tool in offer.uses}
    example = example_of((tool for _, tool in _in_turn(offers)), used.__contains__)
    example = Example(redact(example.path), redact(example.program))
    return Listing(redact(names), redact(_fill(offers, left)), example)


class _Detail(IntEnum):
    """How much the line of a tool says."""

    NAME = 0
    REQUIRED = 1
    SIGNATURE = 2


class _Line(NamedTuple):
    detail: _Detail
    text: str


@dataclass(slots=True)
class _Offer:
    """A server, its tools in the order in which they are listed, and the lines of those that are listed so far."""

    server: Server
    tools: list[Tool]
    lines: dict[Tool, _Line]
    uses: dict[Tool, float]
    """How often programs have called those that they call, less the longer ago."""

    @classmethod
    def of(cls, server: Server, rules: PermissionRules, uses: Mapping[ToolName, Use]) -> _Offer | None:
        if server.state in (UpstreamState.DISABLED, UpstreamState.INVALID):
            return None
        tools = [tool for tool in server.tools if rules.always_denied(Subject.of_tool(server, tool)) is None]
        if server.tools and not tools:
            return None
        now = time.time()
        used = {
            tool: count
            for tool in tools
            if (use := uses.get(ToolName(server.name, tool.name))) is not None
            if (count := use.as_of(now)) >= _MIN_USES
        }
        tools.sort(key=lambda it: (-used.get(it, 0.0), bool(it.deprecation)))  # else as the server lists them
        return cls(server, tools, {}, used)

    def head(self, listed: int) -> str:
        """The server's line when `listed` of its tools stand below it. It says `callable tools` where `list_dir` shows
        more: those that can't be called or are refused."""
        is_whole = not self.tools or len(self.tools) == listed
        kind = "tool" if len(self.tools) == len(self.server.tools) else "callable tool"
        count = "" if is_whole else f" ({counted(len(self.tools), kind)})"
        return f"servers.{self.server.name}{count}{':' if listed else ''}"

    @property
    def text(self) -> str:
        """In the order of the tools."""
        lines = (self.lines[tool].text for tool in self.tools if tool in self.lines)
        return "\n".join((self.head(len(self.lines)), *lines))


def _fill(offers: list[_Offer], budget_tokens: int) -> str:
    budget = _Budget(budget_tokens)
    if not budget.take("\n".join(offer.head(0) for offer in offers)):
        characters = int(_CHARACTERS_PER_TOKEN_OF_NAMES * budget_tokens) - 10
        return "servers: " + _joined([offer.server.name for offer in offers], characters)
    used = [(offer, tool) for offer in offers for tool in offer.tools if tool in offer.uses]
    used.sort(key=lambda it: -it[0].uses[it[1]])
    beyond_share = (1 - _SIGNATURES_SHARE) * budget_tokens
    _add(used, _Detail.SIGNATURE, budget, beyond_share)
    _add(_in_turn(offers), _Detail.NAME, budget)
    _add(_in_turn(offers), _Detail.REQUIRED, budget)
    _add(_in_turn(offers), _Detail.SIGNATURE, budget, beyond_share)
    return "\n".join(offer.text for offer in offers)


@dataclass(slots=True)
class _Budget:
    left_tokens: float

    def take(self, text: str, instead_of: str = "", leave: float = 0.0) -> bool:
        """Pay for a text in place of another one; False, and nothing is paid, if fewer than `leave` tokens would be
        left. Costs of lines add up, so the whole text is not measured for each line."""
        cost = _cost(text) - _cost(instead_of)
        if cost > self.left_tokens - leave:
            return False
        self.left_tokens -= cost
        return True


def _cost(text: str) -> float:
    return max(weigh_tokens(text), len(text) / _CHARACTERS_PER_TOKEN)


def _add(tools: Iterable[tuple[_Offer, Tool]], detail: _Detail, budget: _Budget, leave: float = 0.0) -> None:
    """Give each tool a line with at least this detail, as far as the budget allows."""
    misfits = 0
    for offer, tool in tools:
        before, count = offer.lines.get(tool), len(offer.lines)
        if before is not None and before.detail >= detail:
            continue
        line = _line(tool, detail)
        old, new = ("", count + 1) if before is None else (f"\n{before.text}", count)
        if budget.take(f"{offer.head(new)}\n{line.text}", f"{offer.head(count)}{old}", leave):
            offer.lines[tool] = line
        elif (misfits := misfits + 1) > _MAX_MISFITS:
            break


def _in_turn(offers: list[_Offer]) -> Iterator[tuple[_Offer, Tool]]:
    """The first tool of each server, then the second of each."""
    for tools in zip_longest(*(offer.tools for offer in offers)):
        yield from ((offer, tool) for offer, tool in zip(offers, tools, strict=True) if tool is not None)


def _line(tool: Tool, detail: _Detail) -> _Line:
    text = tool.name
    if detail is _Detail.REQUIRED:
        required = [parameter.name for parameter in tool.parameters if parameter.is_required]
        arguments = required or [f"{parameter.name}?" for parameter in tool.parameters[:_MAX_OPTIONAL]]
        text = f"{tool.name}({', '.join(arguments)}){_lone_key(tool)}"
    elif detail is _Detail.SIGNATURE:
        fields = result_fields(tool)
        while len(fields) > _FIELDS_CHARACTERS and "; " in fields:
            fields = fields.rpartition("; ")[0]  # the keys of inner dicts
        signature = brief_signature(tool, _SIGNATURE_CHARACTERS, with_phrases=False)
        text = f"{signature}  # {fields}" if fields else signature
    return _Line(detail, clean_line(text, 2 * _SIGNATURE_CHARACTERS))


def _lone_key(tool: Tool) -> str:
    """` -> {content}` if the result is declared as a dict with one key, which programs else take for the value in it.
    Read from the schema: stubs of all tools would take longer than a host waits."""
    schema, is_unwrapped = declared_result(tool.definition)
    keys = [] if is_unwrapped else list(properties_of(SchemaReader(schema).flat(schema)))
    return f" -> {{{keys[0]}}}" if len(keys) == 1 and is_declared_name(keys[0]) else ""


def _joined(names: list[str], characters: int) -> str:
    """`a, b, c`, or with as many as fit `a, b and 7 more`."""
    whole = ", ".join(names)
    if len(whole) <= characters:
        return whole
    shortened = (first_few(names, count) for count in range(len(names) - 1, 0, -1))
    return next((text for text in shortened if len(text) <= characters), f"{len(names)} servers")
