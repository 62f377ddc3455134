"""Makes pages of templates. Every value in a page is escaped, shows what it would hide, and is of bounded length unless
a person decides by it.

The sides of a difference are told apart by sign, element and words for screen readers, not by colour alone. Privacy
tokens link to the page where their value can be shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse

from codemode_server.support.text import counted, legible

_FOLDER = Path(__file__).parent
_SIDES = {"-": ("removed", "before: ", "del"), "+": ("added", "now: ", "ins")}
_TAG_OR_TOKEN = re.compile(r"<[^>]*>|&lt;([A-Z][A-Z0-9_]*_[1-9][0-9]*)&gt;")
"""In escaped text and HTML that is made of it: there, `<` and `>` stand for nothing but tags."""
MAX_CHARACTERS = 4_000
MAX_LINES = 2_000
STYLE = (_FOLDER / "static" / "page.css").read_text(encoding="utf-8")
SCRIPT = (_FOLDER / "static" / "live.js").read_text(encoding="utf-8")


def shown(value: Any) -> Any:
    """A value of a template as it stands in the page; jinja2 escapes what this gives."""
    return legible(value[:MAX_CHARACTERS]) + _rest(len(value)) if _is_text(value) else value


class _Line(str):
    """A line that is legible already; its spaces stay."""

    __slots__ = ()


def text_lines(text: str) -> list[_Line]:
    """The lines of a program or of JSON, with their indentation."""
    lines = text.rstrip("\n").split("\n")
    found = [_Line(_line(line)) for line in lines[:MAX_LINES]]
    return found if len(lines) <= MAX_LINES else [*found, _Line(f"… and {len(lines) - MAX_LINES:,} more lines")]


def json_lines(text: str) -> list[_Line]:
    with suppress(ValueError, RecursionError):
        text = json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    return text_lines(text)


def moment(seconds: float) -> Markup:
    """The time on this machine; its zone is in the title."""
    at = datetime.fromtimestamp(seconds, UTC).astimezone()
    said = at.strftime("%Y-%m-%d %H:%M:%S")
    return Markup('<time datetime="{}" title="{} {:%Z (UTC%z)}">{}</time>').format(
        at.isoformat(timespec="seconds"), said, at, said
    )


def duration(milliseconds: float | None) -> str:
    if milliseconds is None:
        return "–"
    if milliseconds < 10_000:
        return f"{milliseconds:,.0f} ms"
    seconds = milliseconds / 1_000
    return f"{seconds:,.1f} s" if seconds < 120 else f"{seconds / 60:,.1f} min"


def page(template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    return HTMLResponse(rendered(template, **values), status_code=status)


def bare_page(title: str, body: Markup | str, *, status: int = 200, base: str = "") -> HTMLResponse:
    """A page without navigation: with a text, or HTML. Without the `base` of the pages it has its style within."""
    if not isinstance(body, Markup):
        body = Markup("<h1>{}</h1><p>{}</p>").format(shown(title), shown(body))
    style = Markup("") if base else Markup(STYLE)  # noqa: S704 - our own file
    return page("bare", status=status, title=title, body=body, base=base, style=style)


def rendered(template: str, **values: Any) -> Markup:
    return Markup(_ENVIRONMENT.get_template(f"{template}.html").render(values))  # noqa: S704 - templates escape values


def with_token_links(html: Markup, known: Collection[str], base: str) -> Markup:
    """HTML in whose texts each of the known tokens, such as `<EMAIL_1>`, is a link; `base` is the path of the pages."""
    if not known:
        return html

    def link(found: re.Match[str]) -> str:
        name = found[1]
        if name is None or f"<{name}>" not in known:
            return found[0]
        return str(
            Markup('<a class="token" href="{base}/privacy/{name}" title="Privacy token">&lt;{name}&gt;</a>').format(
                base=base, name=name
            )
        )

    return Markup(_TAG_OR_TOKEN.sub(link, str(html)))  # noqa: S704 - only links are added to what is HTML already


def difference_html(lines: Sequence[str]) -> Markup:
    """A list with an item for each line, in which nothing is hidden."""
    return Markup('<ul class="diff">{}</ul>').format(Markup().join(map(_item, map(legible, lines))))


def _item(line: str) -> Markup:
    if line[:1] not in _SIDES:
        return Markup('<li class="part">{}</li>').format(line)
    kind, spoken, element = _SIDES[line[:1]]
    return Markup(
        '<li class="{kind}"><span aria-hidden="true">{sign}</span><span class="spoken">{spoken}</span>'
        "<{element}>{line}</{element}></li>"
    ).format(kind=kind, sign=line[0], spoken=spoken, element=element, line=line[1:])


def _line(line: str) -> str:
    line = line[:MAX_CHARACTERS].expandtabs(4) + _rest(len(line))
    content = line.lstrip(" ")
    # Spaces within a line are escaped by `legible`; those before it are shown as they are.
    return " " * min(len(line) - len(content), 80) + legible(content)


def _rest(length: int) -> str:
    return f"… ({length:,} characters)" if length > MAX_CHARACTERS else ""


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not isinstance(value, Markup | _Line)


def _difference(lines: Sequence[str]) -> Markup:
    return difference_html([shown(line) for line in lines])


def _whole(text: str) -> _Line:
    return _Line(legible(text))


def _whole_lines(text: str) -> _Line:
    return _Line("\n".join(map(legible, text.split("\n"))))


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)


def _with_tokens(text: str, known: Collection[str], base: str) -> Markup:
    return with_token_links(escape(shown(text)), known, base)


_ENVIRONMENT = Environment(
    loader=FileSystemLoader(_FOLDER / "templates", encoding="utf-8"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=shown,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters |= {
    "moment": moment,
    "duration": duration,
    "counted": counted,
    "text_lines": text_lines,
    "json_lines": json_lines,
    "difference": _difference,
    "whole_difference": difference_html,
    "whole": _whole,
    "whole_lines": _whole_lines,
    "as_text": _as_text,
    "tokens": _with_tokens,
    "token_links": with_token_links,
}
