"""Summarizes the arguments and the result of a call for the model whose program failed.

A summary is enough to decide whether to repeat the call, and with which id to continue. It goes to the model only, is
stored nowhere, and every text in it is masked before it is cut.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from codemode_server.domain.ids import JsonValue
from codemode_server.sandbox.contract import Reply
from codemode_server.support.redaction import Redactor
from codemode_server.support.text import counted

_MAX_ARGUMENTS = 6
_MAX_TEXT = 32
_MAX_URL = 90
_MAX_KEYS = 8
_SCANNED_KEYS = 200
_SCANNED_TEXT = 4_096
_IDS = ("id", "number", "key", "sha", "ts", "iid", "uuid", "name", "title", "status", "state", "url", "html_url")
_MAX_IDS = 3
_MAX_BLOCKS = 3


def of_arguments(arguments: dict[str, Any], redactor: Redactor, longest: int = _MAX_TEXT) -> dict[str, str]:
    """`{"repo": '"a/b"', "labels": '[2 items: "bug", …]'}`; a last name `…` stands for further ones. `longest` bounds
    a text."""
    few = islice(arguments.items(), _MAX_ARGUMENTS)
    shown = {_short(name, redactor): _argument(value, redactor, longest) for name, value in few}
    return shown | {"…": ""} if len(arguments) > _MAX_ARGUMENTS else shown


def of_result(value: JsonValue, redactor: Redactor) -> str:
    """`{number=7, title="…", 9 more keys}`, `30 items, each with id, title, labels`."""
    match value:
        case dict():
            return _of_dict(value, redactor)
        case [dict() as first, *_] if first:
            return f"{counted(len(value), 'item')}, each with {_names(first, redactor)}"
        case list():
            return counted(len(value), "item")
        case str() if len(value) > 80:
            return f"a text of {len(value):,} characters"
    return _value(value, redactor)


def of_reply(reply: Reply, redactor: Redactor) -> str:
    """As `of_result`, for the reply that a program gets, which may have files."""
    if reply.encoding == "json":
        return of_result(reply.value, redactor)
    blocks = reply.value
    shown = ", ".join(_of_block(block, redactor) for block in blocks[:_MAX_BLOCKS])
    return f"{len(blocks)} items: {shown}, …" if len(blocks) > _MAX_BLOCKS else shown


def _of_block(block: dict[str, Any], redactor: Redactor) -> str:
    if block["type"] == "file":
        is_link = not any(part in block for part in ("data", "text", "at"))
        kind = _short(str(block.get("mime_type") or "unknown"), redactor)
        return f"a {'link' if is_link else 'file'} ({kind})"
    return of_result(block.get("value", block.get("text")), redactor)


def _of_dict(value: dict[str, Any], redactor: Redactor) -> str:
    known = list(islice(value, _SCANNED_KEYS))
    ids = [key for key in known if key in _IDS or key.endswith(("_id", "Id"))]
    simple = [key for key in ids if not isinstance(value[key], dict | list | None)]
    chosen = sorted(simple, key=lambda key: _IDS.index(key) if key in _IDS else 1)[:_MAX_IDS]
    if not chosen:
        return f"a dict with {_names(value, redactor)}" if value else "{}"
    shown = [f"{_short(key, redactor)}={_value(value[key], redactor)}" for key in chosen]
    more = len(value) - len(chosen)
    rest = [counted(more, "more key")] if more else []
    return "{" + ", ".join([*shown, *rest]) + "}"


def _names(value: dict[str, Any], redactor: Redactor) -> str:
    shown = [_short(key, redactor) for key in islice(value, _MAX_KEYS)]
    return ", ".join([*shown, f"{len(value) - _MAX_KEYS} more"] if len(value) > _MAX_KEYS else shown)


def _argument(value: Any, redactor: Redactor, longest: int) -> str:
    """As `_value`, with enough to distinguish two lists, or two paths in one folder."""
    if isinstance(value, list) and value and (first := _telling(value[0])) is not None:
        return f"[{counted(len(value), 'item')}: {_value(first, redactor, longest)}{', …' if len(value) > 1 else ''}]"
    if isinstance(value, str) and _is_path(value):
        line = redactor.text(value)
        return f'"{line}"' if len(line) <= longest else f'"…{line[1 - longest :]}"'
    return _value(value, redactor, longest)


def _is_path(value: str) -> bool:
    has_parts = "/" in value or "\\" in value
    return len(value) < _SCANNED_TEXT and has_parts and not value.startswith("https://") and len(value.split()) == 1


def _telling(item: Any) -> Any:
    """The best name for an item of a list: itself, or an object's name or first short text."""
    if not isinstance(item, dict):
        return None if isinstance(item, list) else item
    known = {key: item[key] for key in islice(item, _SCANNED_KEYS) if not isinstance(item[key], dict | list | None)}
    named = [known[key] for key in ("name", "title", "id", "path") if key in known]
    texts = [value for value in known.values() if isinstance(value, str)]
    short = [value for value in texts if len(value) <= _MAX_TEXT]
    return next(iter([*named, *short, *texts, *known.values()]), None)


def _value(value: Any, redactor: Redactor, longest: int = _MAX_TEXT) -> str:
    if isinstance(value, str):
        return f'"{_short(value, redactor, max(longest, _MAX_URL) if value.startswith("https://") else longest)}"'
    if isinstance(value, dict):
        return f"{{{counted(len(value), 'key')}}}"
    if isinstance(value, list):
        return f"[{counted(len(value), 'item')}]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else _short(str(value), redactor)


def _short(written: str, redactor: Redactor, most: int = _MAX_TEXT) -> str:
    line = " ".join(redactor.head(written, _SCANNED_TEXT).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
