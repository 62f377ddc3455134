"""Makes pages of templates. Every value in a page is escaped, of bounded length, and shows what it would hide."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse

from codemode_server.text import legible
from codemode_server.web.difference_html import difference_html
from codemode_server.web.ui.token_marks import with_token_links

_FOLDER = Path(__file__).parent
MAX_CHARACTERS = 4_000
"""Longest value in a page."""
MAX_LINES = 2_000
"""Most lines of a program or of JSON in a page."""
STYLE = (_FOLDER / "static" / "page.css").read_text(encoding="utf-8")
SCRIPT = (_FOLDER / "static" / "live.js").read_text(encoding="utf-8")


def shown(value: Any) -> Any:
    """A value of a template as it stands in the page; jinja2 escapes what this gives."""
    return legible(value[:MAX_CHARACTERS]) + _rest(len(value)) if _is_text(value) else value


def text_lines(text: str) -> list[str]:
    """The lines of a program or of JSON, with their indentation."""
    lines = text.rstrip("\n").split("\n")
    found = [_line(line) for line in lines[:MAX_LINES]]
    return found if len(lines) <= MAX_LINES else [*found, f"… and {len(lines) - MAX_LINES:,} more lines"]


def json_lines(text: str) -> list[str]:
    """JSON, indented."""
    with suppress(ValueError, RecursionError):
        text = json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    return text_lines(text)


def moment(seconds: float) -> str:
    """A time of this machine's clock."""
    return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def duration(milliseconds: float | None) -> str:
    """A time span in a few characters."""
    if milliseconds is None:
        return "–"
    if milliseconds < 10_000:
        return f"{milliseconds:,.0f} ms"
    seconds = milliseconds / 1_000
    return f"{seconds:,.1f} s" if seconds < 120 else f"{seconds / 60:,.1f} min"


def page(template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """The page of a template in `templates/`."""
    return HTMLResponse(_ENVIRONMENT.get_template(f"{template}.html").render(values), status_code=status)


def _line(line: str) -> str:
    line = line[:MAX_CHARACTERS].expandtabs(4) + _rest(len(line))
    content = line.lstrip(" ")
    # Spaces within a line are escaped by `legible`; those before it are shown as they are.
    return " " * min(len(line) - len(content), 80) + legible(content)


def _rest(length: int) -> str:
    return f"… ({length:,} characters)" if length > MAX_CHARACTERS else ""


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not isinstance(value, Markup | _Line)


class _Line(str):
    """A line that is legible already; its spaces stay."""

    __slots__ = ()


def _text_lines(text: str) -> list[_Line]:
    return [_Line(line) for line in text_lines(text)]


def _json_lines(text: str) -> list[_Line]:
    return [_Line(line) for line in json_lines(text)]


def _difference(lines: Sequence[str]) -> Markup:
    return Markup(difference_html([shown(line) for line in lines]))  # noqa: S704 - it escapes all that it shows


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
_ENVIRONMENT.filters["moment"] = moment
_ENVIRONMENT.filters["duration"] = duration
_ENVIRONMENT.filters["text_lines"] = _text_lines
_ENVIRONMENT.filters["json_lines"] = _json_lines
_ENVIRONMENT.filters["difference"] = _difference
_ENVIRONMENT.filters["tokens"] = _with_tokens
