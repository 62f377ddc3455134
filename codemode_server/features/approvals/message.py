"""A question as plain text, the most important first, for hosts that show a little and for the terminal.

Every text of a program or a server stands within one line of ours, with line ends, controls and marks of direction
written as escapes, so that none of it can look like another line, question or answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import islice

from codemode_server.domain.approvals import Approval, Question
from codemode_server.domain.ids import JsonValue
from codemode_server.support.text import legible

MAX_SHORT_CHARACTERS = 1_500
_END_CHARACTERS = 40
_MAX_ARGUMENTS = 60
_PLAIN_NAME = re.compile(r"[\w$@.-]+")
MAX_PATTERN_CHARACTERS = 200
"""An answer for the session is offered only if all that it covers can be shown."""
_MAX_RULE_CHARACTERS = 160
_ARGUMENTS_BUDGET = 560
_ANY_RESULT = "the result that you enter, or None"
_COMPUTED = "none names this tool, so the program computes what it calls"


def short_text(approval: Approval) -> str:
    """At most `MAX_SHORT_CHARACTERS`, with what is left out counted and the command that shows all."""
    asked = approval.question
    end = [
        *_scopes(asked, MAX_PATTERN_CHARACTERS, _MAX_RULE_CHARACTERS),
        f"Whole question: codemode-server approvals show {approval.approval_id}",
    ]
    arguments = _arguments(asked, 180)
    if sum(map(len, arguments)) > _ARGUMENTS_BUDGET:  # long ones must not push short ones out of sight
        arguments.sort(key=len)
    text = "\n".join(
        [
            _first_line(asked, 160),
            *_section("", arguments, _ARGUMENTS_BUDGET, len(asked.arguments)),
            f"Asked because: {one_line(asked.reason, 280)}",
            *_details(asked, (120, 90, 60, 90, 90), (240, 220, 120, 160, 160)),
        ]
    )
    last = "\n".join(end)  # whatever is cut, the answers' meanings are not
    if len(text) + len(last) < MAX_SHORT_CHARACTERS:
        return f"{text}\n{last}"
    return f"{text[: MAX_SHORT_CHARACTERS - len(last) - 2]}…\n{last}"


def whole_text(approval: Approval) -> str:
    asked, most = approval.question, 8_000
    return "\n".join(
        [
            _first_line(asked, most),
            *_arguments(asked, most),
            f"Asked because: {one_line(asked.reason, most)}",
            *_details(asked, [most] * 5, [None] * 5),
            *_scopes(asked, most, most),
        ]
    )


def pattern_text(question: Question, longest: int) -> str:
    fixed = question.pattern or {}
    free = [name for name in question.arguments if name not in fixed]
    shown = [f"{_name(name, 40)}={value_text(value, 100)}" for name, value in fixed.items()]
    anything = f"any {', '.join(_name(name, 40) for name in free)}" if free else ""
    return one_line("; ".join(filter(None, [", ".join(shown), anything])), longest)


def value_text(value: JsonValue, longest: int) -> str:
    """The value as JSON on one line, its middle left out if it is long."""
    return one_line(json.dumps(value, ensure_ascii=False, default=str), longest)


def one_line(text: str, longest: int) -> str:
    """The text with nothing hidden; its middle is left out if it is long."""
    if len(text) <= longest:
        line = legible(text)
        if len(line) <= longest:
            return line
    end = min(_END_CHARACTERS, longest // 4)
    left_out = f" […{len(text):,} in all…] "
    head, tail = legible(text[:longest]), legible(text[-end:])
    return head[: max(longest - end - len(left_out), 0)] + left_out + tail[-end:]


def _name(name: str, longest: int) -> str:
    """The name of an argument; in quotes if it could look like a name with a value."""
    return one_line(name if _PLAIN_NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False), longest)


def commands_of(approval: Approval) -> str:
    command, name = "codemode-server approvals", approval.approval_id
    if not (asked := approval.question).is_unanswered:
        return f"{command} approve {name}"
    hint = f" ({', '.join(asked.reads)} may tell)" if asked.reads else ""
    return (
        f"an earlier run sent it and got no answer{hint}. It arrived: {command} arrived {name} [--result JSON]; "
        f"send it again: {command} approve {name}; give up: {command} deny {name}"
    )


def _first_line(asked: Question, longest: int) -> str:
    question = "Did this call arrive?" if asked.is_unanswered else "Approve this call?"
    return f"{question} {one_line(asked.title, longest)} ({asked.said_effect})"


def _arguments(asked: Question, longest: int) -> list[str]:
    if not asked.arguments:
        return ["  without arguments"]
    shown = islice(asked.arguments.items(), _MAX_ARGUMENTS)
    return [f"  {_name(name, 60)}: {value_text(value, longest)}" for name, value in shown]


def _details(asked: Question, widths: Sequence[int], budgets: Sequence[int | None]) -> list[str]:
    """Further facts for the person, each kind with the longest line and the room for all."""
    sections = (
        ("To find out, have it read:", asked.reads),
        ("What differs (- before, + now):", asked.changes),
        ("Sources that this session has read:", asked.sources),
        ("Lines that may make the call:", asked.lines or (_COMPUTED,)),
        ("Done so far, newest first:", asked.done[::-1]),
    )
    return [
        line
        for (heading, texts), width, budget in zip(sections, widths, budgets, strict=True)
        for line in _section(heading, [f"  {one_line(text, width)}" for text in texts], budget)
    ]


def _scopes(asked: Question, longest: int, longest_rule: int) -> list[str]:
    if asked.is_unanswered:
        result = f"the result that you enter: {one_line(asked.result, 200)}" if asked.result else _ANY_RESULT
        return [
            f"“It arrived”: it is not sent; the program gets {result}.",
            "“Send it again”: if it did arrive, it happens twice. “Give up”: it fails; a later resume asks again.",
        ]
    lines = [f"“As shown” covers: {pattern_text(asked, longest)}"] if asked.pattern else []
    if asked.readers:
        names = one_line(", ".join(asked.readers), longest_rule)
        lines.append(f"“What only reads” has {len(asked.readers)} of its tools, by name and description: {names}")
    if asked.rule is not None:
        lines.append(f"“Always” adds to permissions.rules: {one_line(asked.rule, longest_rule)}")
    return [*lines, *([f"So that it is not asked again: {asked.for_good}"] if asked.for_good else [])]


def _section(heading: str, lines: Sequence[str], budget: int | None, count: int = 0) -> list[str]:
    """The lines that fit, and how many do not of `count`, or of all."""
    if not lines:
        return []
    shown: list[str] = []
    left = budget
    for line in lines:
        more = max(count, len(lines)) - len(shown)
        if left is not None and shown and len(line) > left and (more > 1 or len(line) > _END_CHARACTERS + 20):
            shown.append(f"  … and {more} more, not shown here")
            break
        shown.append(line)
        left = None if left is None else left - len(line)
    return [heading, *shown] if heading else shown
