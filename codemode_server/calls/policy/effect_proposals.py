"""Proposes which tools only read, of those whose servers say nothing of their effects. Pure.

Names and descriptions are a server's own claims, so a proposal is shown to a person, and nothing is decided by it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from codemode_server.calls.policy.rules import PermissionRules, Subject
from codemode_server.calls.policy.settings import PermissionSettings
from codemode_server.catalog.catalog import Catalog, Server, Tool
from codemode_server.catalog.naming import words
from codemode_server.domain.tools import Effect, ToolDefinition
from codemode_server.support.text import counted

COMMAND = "codemode-server effects"
_MAX_CHARACTERS = 4_000
"""No tool with a longer description is proposed."""


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
"""A name that is no glob, and can be taken for no other."""
_READS = _set("get list search read describe find show view lookup count retrieve")
_CHANGES = _set(
    """activate add alter append apply approve archive assign cancel clear clone close configure create deactivate
    delete destroy disable drop edit enable execute generate import increment insert install invoke kill launch
    manage merge modify move mutate overwrite publish purge push put reboot register reject remove rename replace reset
    restart restore revoke save send set submit subscribe terminate toggle transfer trigger truncate uninstall update
    upsert write"""
)
_NOUNS_TOO = _set("block buy charge commit copy deploy fork invite lock mark pay post reply share upload")
"""Verbs of change that are as often nouns, as in `get_commit`."""
_NOT_SAID_OF_CHANGES = _set("apply execute generate")
"""Verbs of change with which descriptions also begin what only reads: `Execute a SELECT query`."""
_SAID = re.compile(
    r"(?:^|[.!?:;,(\n]\s*|\b(?:and|or|then|also|can|may|will|including|includes)\s+)(?=([a-z]+))"
    r"|\b(insert|update|delete|drop|alter|create)\b(?=[^.]*\b(?:query|queries|statements?)\b)",
    re.IGNORECASE,
)
"""A word where a description can say what the tool does: at the beginning of a clause, or as a statement of SQL."""


def seems_to_read(tool: ToolDefinition) -> bool:
    """True if the server says nothing of the tool's effect, its name begins with a verb of reading, perhaps behind one
    other word, and has none of changing, and its description does not say that it changes anything."""
    if tool.effect is not Effect.UNKNOWN or not _PLAIN_NAME.fullmatch(tool.name):
        return False
    names = [word.lower() for word in words(tool.name)]
    if _READS.isdisjoint(names[:2]) or not _CHANGES.isdisjoint(names):
        return False
    if len(tool.description) > _MAX_CHARACTERS:
        return False
    return not any(_is_change(found[1] or found[2]) for found in _SAID.finditer(tool.description.lower()))


def _is_change(word: str) -> bool:
    stems = {word, word.removesuffix("s"), word.removesuffix("es")}
    return not (_CHANGES | _NOUNS_TOO).isdisjoint(stems - _NOT_SAID_OF_CHANGES)


def proposed_readers(permissions: PermissionSettings, catalog: Catalog) -> Mapping[str, Sequence[Tool]]:
    """By the raw names of servers, what `readers_among` finds there."""
    rules = PermissionRules(permissions)
    return {server.raw_name: tools for server in catalog.servers if (tools := readers_among(rules, server))}


def readers_among(rules: PermissionRules, server: Server) -> Sequence[Tool]:
    """The tools that seem to only read and would not be asked about, or not be denied, if the configuration said so."""
    found: list[Tool] = []
    for tool in filter(lambda it: seems_to_read(it.definition), server.tools):
        subject = Subject.of_tool(server, tool)
        if _is_held(rules, subject) and not _is_held(rules, replace(subject, effect="read")):
            found.append(tool)
    return found


def _is_held(rules: PermissionRules, subject: Subject) -> bool:
    return rules.asks_first(subject) or rules.always_denied(subject) is not None


def proposal_lines(permissions: PermissionSettings, catalog: Catalog) -> list[str]:
    """A line for each server with such tools, and the command that shows and accepts them."""
    return [
        f"effects: {counted(len(tools), 'tool')} of {server} can't be called without a question, but by name and "
        f"description only read{'s' * (len(tools) == 1)}; `{COMMAND} accept {server}` shows and accepts that"
        for server, tools in proposed_readers(permissions, catalog).items()
    ]
