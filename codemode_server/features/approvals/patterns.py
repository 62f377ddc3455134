"""The calls that an answer covers: calls of a session that fit the shown pattern, and the rule that `always` writes."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from typing import Any

from codemode_server.calls.policy.effect_proposals import readers_among
from codemode_server.calls.policy.names import Spellings, fits
from codemode_server.calls.policy.rules import PermissionRules
from codemode_server.calls.targets import CallTarget, ToolTarget
from codemode_server.catalog.naming import Kind, name_alone
from codemode_server.config import saving
from codemode_server.config.loading import load_place
from codemode_server.config.places import ConfigFile
from codemode_server.config.settings import Settings
from codemode_server.domain.approvals import AnswerScope, Approval, Question
from codemode_server.domain.calls import Ask, ToolCall
from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.ids import JsonValue
from codemode_server.support.redaction import MASK

_MAX_FIXED_CHARACTERS = 100
_MAX_READERS = 100
_FREE_TEXT = frozenset({"body", "comment", "content", "description", "message", "prompt", "subject", "text", "title"})
"""Arguments that are written anew for each call, also where they are one word."""


def default_pattern(shown: Mapping[str, JsonValue]) -> dict[str, JsonValue] | None:
    """The arguments that an answer for the session fixes: the short ones that are no free text, such as names, numbers
    and switches. None if a masked secret or a left out argument is among them, since others would look the same."""
    if "…" in shown or any(MASK in str(item) for item in (*shown, *shown.values())):
        return None
    return {name: value for name, value in shown.items() if _is_fixed(name, value)}


def covers(given: Approval, other: Approval) -> bool:
    """True if the answer to one question also approves another call."""
    answer, asked, others = given.answer, given.question, other.question
    if answer is None or not answer.is_approved or given.principal != other.principal:
        return False
    if (given.key.server, given.key.tool, given.definition) != (other.key.server, other.key.tool, other.definition):
        return False
    if asked.reason != others.reason:  # what was approved is not all that this call is asked for
        return False
    match answer.scope:
        case AnswerScope.EXECUTION | AnswerScope.READS | AnswerScope.ALWAYS:  # the file is in force a moment later
            return given.execution_id == other.execution_id
        case AnswerScope.TOOL:
            return given.session_id == other.session_id
        case AnswerScope.SESSION:
            is_same = given.session_id == other.session_id
            return is_same and bool(asked.pattern) and _fits(asked.pattern or {}, asked.arguments, others.arguments)
    return False


def spelling_of(call: ToolCall, target: CallTarget) -> str:
    """Equal for calls that say the same: in another order of keys, with 1 for 1.0, with a default or null left out."""
    schema = target.tool.definition.input_schema if isinstance(target, ToolTarget) else {}
    return json.dumps([call.server, call.tool, _plain(call.arguments, schema)], sort_keys=True, default=str)


def _plain(value: Any, schema: Any) -> Any:
    schema = schema if isinstance(schema, dict) else {}
    if isinstance(value, dict):
        properties = schema.get("properties")
        said = properties if isinstance(properties, dict) else {}
        members = ((name, it, said.get(name)) for name, it in value.items())
        return {name: _plain(it, own) for name, it, own in members if not _is_default(it, own)}
    if isinstance(value, list):
        return [_plain(it, schema.get("items")) for it in value]
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_default(value: Any, schema: Any) -> bool:
    default = schema.get("default") if isinstance(schema, dict) else None
    return bool(value == default and isinstance(value, bool) == isinstance(default, bool))


def _fits(pattern: Mapping[str, JsonValue], shown: Mapping[str, JsonValue], others: Mapping[str, JsonValue]) -> bool:
    """True if these arguments match what the pattern fixes, and have none that the person did not see."""
    return others.keys() <= shown.keys() and all(
        name in others and type(others[name]) is type(value) and others[name] == value
        for name, value in pattern.items()
    )


def _is_fixed(name: str, value: JsonValue) -> bool:
    if isinstance(value, str):
        is_word = len(value) <= _MAX_FIXED_CHARACTERS and not any(map(str.isspace, value))
        return is_word and name.lower() not in _FREE_TEXT
    return isinstance(value, bool | int | float | None)


_SPECIAL = frozenset("*?[]/$")
_MAX_NAME_CHARACTERS = 60
"""Each question shows such a rule whole."""


def always_rule(settings: Settings, target: CallTarget, ask: Ask) -> str | None:
    """The rule as YAML. None if not (only) a rule of the configuration asks, and where no pattern allows exactly this
    tool: its name looks like a pattern, or fits another tool as well."""
    place = PermissionRules(settings.permissions).place_before_asking(ask.reason)
    if not isinstance(target, ToolTarget) or place is None:
        return None
    server, tool = target.server.raw_name, target.raw_name
    if max(len(server), len(tool)) > _MAX_NAME_CHARACTERS:
        return None
    others = [name for name in settings.servers if name != server]
    is_servers_own = not any(name_alone(name, Kind.SERVER) == server for name in others)
    fitting = [it for it in target.server.tools if fits(Spellings.of_tool(it), tool, is_wide=True)]
    if _SPECIAL & {*server, *tool} or not tool.isprintable() or not is_servers_own or len(fitting) != 1:
        return None
    return f"- allow: {server}/{tool}"


def readers_of(settings: Settings, target: CallTarget, ask: Ask) -> tuple[str, ...]:
    """The raw names of the tools that seem to only read, if this one is among them and nothing but its effect has it
    asked about."""
    rules = PermissionRules(settings.permissions)
    if not isinstance(target, ToolTarget) or rules.place_before_asking(ask.reason) is None:
        return ()
    readers = tuple(it.raw_name for it in readers_among(rules, target.server))
    return readers if target.raw_name in readers and len(readers) <= _MAX_READERS else ()


def write_answer(place: ConfigFile, question: Question, scope: AnswerScope) -> None:
    """Write what an answer for good says: that the question's readers only read, or a rule that allows this tool, and
    nothing else, where the question's rule asks. Blocks. Raises `CodemodeError`."""
    with saving.locked(place) as file:
        if scope is AnswerScope.READS:
            file.text.set_effects(question.server, dict.fromkeys(question.readers, "read"))
            file.save()
            return
        index = PermissionRules(load_place(place).settings.permissions).place_before_asking(question.reason)
        if question.rule is None or index is None:
            raise CodemodeError(
                f"{place.path} has other rules than when the question was asked; add the rule by hand: {question.rule}"
            )
        file.text.insert_rule(index, {"allow": f"{question.server}/{question.tool}"})
        file.save()
