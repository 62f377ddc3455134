"""The page of one question: its HTML, and the answer that its form sends. Pure.

Everything in it may come from a program or an upstream, so all of it is escaped, and the page runs no script.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import parse_qs

from codemode_server.domain.approvals import AnswerScope, ApprovalAnswer, Question
from codemode_server.domain.ids import JsonValue
from codemode_server.domain.tools import Effect
from codemode_server.text import legible
from codemode_server.web.difference_html import STYLE as DIFFERENCE_STYLE
from codemode_server.web.difference_html import difference_html

CHANNEL = "page"
MAX_REASON_CHARACTERS = 500
_FOLDED_CHARACTERS = 400
"""Longer values are folded."""
_EFFECTS = {
    Effect.READS: "The server says that it only reads.",
    Effect.WRITES: "It changes something.",
    Effect.DESTROYS: "It may delete or overwrite something.",
    Effect.UNKNOWN: "The server does not say whether it changes something.",
}
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46em;margin:2em auto;padding:0 1em}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f4f4f4;padding:.5em;margin:.2em 0}"
    "fieldset{border:1px solid #bbb;margin:1em 0}label{display:block;margin:.4em 0}"
    "button{font:inherit;padding:.4em 1.4em;margin-right:1em}"
    "@media(prefers-color-scheme:dark){body{background:#181818;color:#eee}pre{background:#2a2a2a}}"
) + DIFFERENCE_STYLE
STYLE_SOURCE = f"'sha256-{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'"
"""What a Content-Security-Policy calls the style of these pages, so that it allows no other."""


def page(question: Question, action: str) -> str:
    """The question with a form that posts to the path `action`."""
    return document("Approval needed", question_html(question, action))


def question_html(question: Question, action: str, hidden: str = "") -> str:
    """The question and its form; `hidden` is HTML of fields that the form sends as well."""
    parts = [
        f"<h1>May a program call <code>{_shown(question.title)}</code>?</h1>",
        f"<p>{_shown(_EFFECTS[question.effect])} It needs your approval: {_shown(question.reason)}.</p>",
        *_section("It would send", _arguments(question.arguments)),
        *_section("What differs (- before, + now)", [difference_html(question.changes)] if question.changes else []),
        *_section("Lines of the program that may make this call", _preformatted(question.lines)),
        *_section("What the program has done so far", _preformatted(question.done)),
        *_section("Data that this session has read", _preformatted(question.sources)),
        f'<form method="post" action="{html.escape(action)}">{hidden}',
        f"<fieldset><legend>Allow it</legend>{''.join(_scopes(question))}",
        '<button name="answer" value="allow" accesskey="a">Allow</button></fieldset>',
        '<fieldset><legend>Refuse it</legend><label>Reason for the program, if you like: <input name="reason" '
        f'maxlength="{MAX_REASON_CHARACTERS}"></label>',
        '<button name="answer" value="refuse" accesskey="r">Refuse</button></fieldset></form>',
    ]
    return "".join(parts)


def message_page(title: str, text: str) -> str:
    """A page without a form."""
    return document(title, f"<h1>{_shown(title)}</h1><p>{_shown(text)}</p>")


def document(title: str, body: str) -> str:
    """A whole page; `body` is HTML."""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{_shown(title)} - codemode-server</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>{body}</html>'
    )


def answer_of(form: bytes, question: Question) -> ApprovalAnswer | None:
    """The answer in a form as the browser sends it; None if it is none that the page offers."""
    try:
        given = parse_qs(form.decode("ascii"), keep_blank_values=True, max_num_fields=10, encoding="utf-8")
    except ValueError:
        return None
    if any(len(values) != 1 for values in given.values()):
        return None
    one = {name: values[0] for name, values in given.items()}
    match one.get("answer"):
        case "refuse":
            reason = one.get("reason", "")[:MAX_REASON_CHARACTERS].strip()
            return ApprovalAnswer(False, reason=reason, channel=CHANNEL, answered_at=time.time())
        case "allow":
            scope = next((it for it in _offered(question) if it.value == one.get("scope")), None)
            return None if scope is None else ApprovalAnswer(True, scope, channel=CHANNEL, answered_at=time.time())
    return None


def _offered(question: Question) -> Iterator[AnswerScope]:
    yield AnswerScope.CALL
    yield AnswerScope.EXECUTION
    if question.pattern is not None:
        yield AnswerScope.SESSION
    if question.rule is not None:
        yield AnswerScope.ALWAYS


def _scopes(question: Question) -> Iterator[str]:
    for scope in _offered(question):
        checked = " checked" if scope is AnswerScope.CALL else ""
        yield (
            f'<label><input type="radio" name="scope" value="{scope.value}"{checked}> '
            f"{_scope_text(scope, question)}</label>"
        )


def _scope_text(scope: AnswerScope, question: Question) -> str:
    title = f"<code>{_shown(question.title)}</code>"
    match scope:
        case AnswerScope.CALL:
            return "this call only"
        case AnswerScope.EXECUTION:
            return f"every call of {title} in the rest of this program, whatever it sends"
        case AnswerScope.SESSION:
            fixed = question.pattern or {}
            free = ", ".join(f"<code>{_shown(name)}</code>" for name in question.arguments if name not in fixed)
            with_these = f" with these arguments:<pre>{_json(fixed)}</pre>" if fixed else ""
            with_these += f" and any {free}" if free else ""
            return f"calls of {title} in this session{with_these}"
        case AnswerScope.ALWAYS:
            return f"always, by this rule in your configuration:<pre>{_lines(question.rule or '')}</pre>"


def _section(title: str, content: Iterable[str]) -> Iterator[str]:
    if shown := "".join(content):
        yield f"<h2>{title}</h2>{shown}"


def _arguments(arguments: Mapping[str, JsonValue]) -> Iterator[str]:
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)
        shown = f"<pre>{_lines(text)}</pre>"
        if len(text) > _FOLDED_CHARACTERS:
            shown = f"<details><summary>{len(text):,} characters</summary>{shown}</details>"
        yield f"<p><code>{_shown(name)}</code>:</p>{shown}"


def _preformatted(lines: tuple[str, ...]) -> Iterator[str]:
    if lines:
        yield f"<pre>{'<br>'.join(_shown(line) for line in lines)}</pre>"


def _json(value: Mapping[str, JsonValue]) -> str:
    return _lines(json.dumps(dict(value), ensure_ascii=False, indent=2, default=str))


def _lines(text: str) -> str:
    return "<br>".join(_shown(line) for line in text.split("\n"))


def _shown(text: str) -> str:
    """One line of text, in which nothing is hidden."""
    return html.escape(legible(text))
