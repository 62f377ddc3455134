"""Builds the question about one call: everything that the person needs to decide, bounded and without secrets.

The lines of the program that may make the call come from its text alone: a program can add lines that look like the
call, and all of them are shown, but it can't have one of them shown in place of another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

from codemode_server.calls.arguments import declared_form
from codemode_server.calls.execution_calls import CallReport, ExecutionCalls
from codemode_server.calls.targets import CallTarget, ToolTarget, title_of
from codemode_server.catalog.nearest_names import object_words
from codemode_server.config.live import LiveConfig
from codemode_server.domain import definitions
from codemode_server.domain.approvals import ProgramTexts, Question
from codemode_server.domain.calls import Ask, ToolCall
from codemode_server.domain.definitions import digest_of
from codemode_server.domain.ids import JsonValue
from codemode_server.domain.tools import Effect
from codemode_server.executions.preflight.reading import read
from codemode_server.features.approvals.message import MAX_PATTERN_CHARACTERS, pattern_text, value_text
from codemode_server.features.approvals.patterns import always_rule, default_pattern, readers_of
from codemode_server.support.text import first_lines, one_line

MAX_LINES = 4
MAX_READS = 2
MAX_SKILLS = 4


def lines_of_call(code: str, server: str, tool: str) -> tuple[str, ...]:
    """The lines that name the tool, or what it is imported as, each as `12: create_issue(owner="ada")`; names are those
    of Python. Empty if no line does, for instance since the program computes the name."""
    reading = read(code)
    if reading is None:
        return ()
    lines = dict(enumerate(reading.text.splitlines(), start=1))
    return tuple(
        first_lines(
            reading.lines_naming(server, tool),
            MAX_LINES,
            "and {:,} more lines that name it",
            lambda number: f"{number}: {lines.get(number, '').strip()}",
        )
    )


def lines_of_skills(skills: Mapping[str, str], server: str, tool: str) -> tuple[str, ...]:
    """The same of skills, by their files, each as `skills/triage.py 12: create_issue(owner="ada")`."""
    found = {file: lines for file, text in skills.items() if (lines := lines_of_call(text, server, tool))}
    shown = [f"{file} {line}" for file, lines in list(found.items())[:MAX_SKILLS] for line in lines]
    return (*shown, *([f"and {len(found) - MAX_SKILLS} more skills that name it"] if len(found) > MAX_SKILLS else []))


MAX_TEXT_CHARACTERS = 2_000
"""Longer texts among the arguments show their beginning and their end."""
_END_CHARACTERS = 400
_MAX_VALUES = 500
"""Values of all arguments together; what is beyond them is counted."""
_MAX_ITEMS = 50
_MAX_DEPTH = 8
_MAX_DONE = 10
_MAX_LINE = 300
WITHOUT_PROGRAM = "no program: the host calls the tool directly"


def question_of(
    call: ToolCall,
    target: CallTarget,
    ask: Ask,
    config: LiveConfig,
    *,
    texts: ProgramTexts,
    done: tuple[str, ...],
    has_session: bool,
) -> Question:
    """The question, built in any thread. `texts` are those of the program; `has_session`: more programs may follow."""
    redactor = config.redactor
    arguments = _Folding().arguments(redactor.value(call.arguments))
    names = target.server.name, target.name
    shown = (*lines_of_call(texts.code, *names), *lines_of_skills(texts.skills, *names))
    lines = shown if texts.code else (WITHOUT_PROGRAM,)
    question = Question(
        call.server,
        call.tool,
        title_of(target),
        target.effect,
        redactor.text(ask.reason),
        arguments,
        done=done,
        changes=tuple(_line(redactor.text(line)) for line in ask.details),
        lines=tuple(_line(redactor.text(line)) for line in lines),
        pattern=default_pattern(arguments) if has_session else None,
        has_session=has_session,
        readers=readers_of(config.settings, target, ask),
        rule=always_rule(config.settings, target, ask),
        is_unanswered=ask.is_unanswered,
        reads=tuple(map(_line, reads_of(arguments, target))) if ask.is_unanswered else (),
        result=declared_form(target.tool) if ask.is_unanswered and isinstance(target, ToolTarget) else "",
    )
    is_shown = len(pattern_text(question, MAX_PATTERN_CHARACTERS + 1)) <= MAX_PATTERN_CHARACTERS
    return question if is_shown else replace(question, pattern=None)


def reads_of(arguments: Mapping[str, JsonValue], target: CallTarget) -> list[str]:
    """Calls of the same server that read what a call may have changed: those that share most with it, at most two."""
    if not isinstance(target, ToolTarget):
        return []
    words, found = object_words(target.name), list[tuple[int, str]]()
    for tool in target.server.tools:
        if tool.may_write:
            continue
        common = [it for it in tool.parameters if it.raw_name in arguments]
        shown = ", ".join(f"{it.name}={value_text(arguments[it.raw_name], 40)}" for it in common)
        score = 2 * len(words & object_words(tool.name)) + len(common)
        found.append((score, f"{tool.server}.{tool.name}({shown})"))
    best = sorted(found, key=lambda it: -it[0])[:MAX_READS]
    return [shown for score, shown in best if score or len(found) <= MAX_READS]


def definition_digest(target: CallTarget) -> str:
    """Digest of the tool's definition, approved with the arguments; other targets are approved one by one."""
    if isinstance(target, ToolTarget):
        return definitions.definition_digest(target.tool.definition)
    return digest_of(repr(target.spellings))


def done_so_far(calls: ExecutionCalls) -> tuple[str, ...]:
    sent = [it for it in calls.reports if it.effect is not Effect.READS and it.status.may_have_been_sent]
    lines = [_report_line(it) for it in sent[-_MAX_DONE:]]
    under_way = [f"{it.title}(…): under way" for it in calls.in_flight.values() if it.effect is not Effect.READS]
    more = len(sent) - len(lines)
    return (*([f"{more} earlier ones"] if more else []), *lines, *under_way[:_MAX_DONE])


def _report_line(report: CallReport) -> str:
    arguments = ", ".join(f"{name}={value}" if value else name for name, value in report.arguments.items())
    return _line(f"{report.server}.{report.tool}({arguments}): {report.status.value}")


def _line(text: str) -> str:
    return one_line(text, _MAX_LINE)


class _Folding:
    def __init__(self) -> None:
        self._left = _MAX_VALUES

    def arguments(self, arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        folded = self._value(dict(arguments), 0)
        return folded if isinstance(folded, dict) else {}

    def _value(self, value: JsonValue, depth: int) -> JsonValue:
        self._left -= 1
        if isinstance(value, str):
            return _text(value)
        if not isinstance(value, dict | list):
            return value
        if depth >= _MAX_DEPTH or self._left <= 0:
            return f"… ({len(value)} {'members' if isinstance(value, dict) else 'items'})"
        return self._members(value, depth) if isinstance(value, dict) else self._items(value, depth)

    def _members(self, value: dict[str, JsonValue], depth: int) -> dict[str, JsonValue]:
        shown = {_text(name): self._value(it, depth + 1) for name, it in islice(value.items(), _MAX_ITEMS)}
        more = len(value) - len(shown)
        return {**shown, "…": f"{more} more members"} if more else shown

    def _items(self, value: list[JsonValue], depth: int) -> list[JsonValue]:
        shown = [self._value(it, depth + 1) for it in value[:_MAX_ITEMS]]
        more = len(value) - len(shown)
        return [*shown, f"… ({more} more items)"] if more else shown


def _text(text: str) -> str:
    if len(text) <= MAX_TEXT_CHARACTERS:
        return text
    left_out = f" … ({len(text):,} characters in all) … "
    return text[: MAX_TEXT_CHARACTERS - _END_CHARACTERS] + left_out + text[-_END_CHARACTERS:]
