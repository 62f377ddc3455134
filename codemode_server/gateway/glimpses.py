"""A call in a few words for the model whose program failed: what it was given, and what came of it.

Enough to know whether it has to be done again, and with which id to go on. It goes to the model only, is kept nowhere,
and every text in it passes `text` (the redactor) before it is cut.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from codemode_server.model import JsonValue
from codemode_server.sandbox.backend import Reply

_MOST_ARGUMENTS = 6
_MOST_TEXT = 32
_MOST_URL = 90
_MOST_KEYS = 8
_SCANNED_KEYS = 200
_SCANNED_TEXT = 4_096
_IDS = ("id", "number", "key", "sha", "ts", "iid", "uuid", "name", "title", "status", "state", "url", "html_url")
_MOST_IDS = 3
_MOST_BLOCKS = 3
Clean = Callable[[str], str]


def of_arguments(arguments: dict[str, Any], text: Clean) -> dict[str, str]:
    """`{"repo": '"a/b"', "labels": '[2 items: "bug", …]'}`; a last name `…` stands for further ones."""
    shown = {_short(name, text): _argument(value, text) for name, value in islice(arguments.items(), _MOST_ARGUMENTS)}
    return shown | {"…": ""} if len(arguments) > _MOST_ARGUMENTS else shown


def of_result(value: JsonValue, text: Clean) -> str:
    """`{number=7, title="…", 9 more keys}`, `30 items, each with id, title, labels`."""
    if isinstance(value, dict):
        return _of_dict(value, text)
    if isinstance(value, list):
        first = value[0] if value else None
        count = _count(value)
        return f"{count}, each with {_names(first, text)}" if isinstance(first, dict) and first else count
    return f"a text of {len(value):,} characters" if isinstance(value, str) and len(value) > 80 else _value(value, text)


def of_reply(reply: Reply, text: Clean) -> str:
    """The same of what a program gets, which may be files."""
    if reply.encoding == "json":
        return of_result(reply.value, text)
    blocks = reply.value
    shown = ", ".join(_of_block(block, text) for block in blocks[:_MOST_BLOCKS])
    return f"{len(blocks)} items: {shown}, …" if len(blocks) > _MOST_BLOCKS else shown


def _of_block(block: dict[str, Any], text: Clean) -> str:
    if block["type"] == "file":
        is_link = not any(part in block for part in ("data", "text", "at"))
        kind = _short(str(block.get("mime_type") or "unknown"), text)
        return f"a {'link' if is_link else 'file'} ({kind})"
    return of_result(block.get("value", block.get("text")), text)


def _of_dict(value: dict[str, Any], text: Clean) -> str:
    known = list(islice(value, _SCANNED_KEYS))
    telling = [key for key in known if _is_id(key) and not isinstance(value[key], dict | list | None)]
    chosen = sorted(telling, key=lambda key: _IDS.index(key) if key in _IDS else 1)[:_MOST_IDS]
    if not chosen:
        return f"a dict with {_names(value, text)}" if value else "{}"
    shown = [f"{_short(key, text)}={_value(value[key], text)}" for key in chosen]
    more = len(value) - len(chosen)
    rest = [f"{more} more key{'' if more == 1 else 's'}"] if more else []
    return "{" + ", ".join([*shown, *rest]) + "}"


def _is_id(key: str) -> bool:
    return key in _IDS or key.endswith(("_id", "Id"))


def _names(value: dict[str, Any], text: Clean) -> str:
    shown = [_short(key, text) for key in islice(value, _MOST_KEYS)]
    return ", ".join([*shown, f"{len(value) - _MOST_KEYS} more"] if len(value) > _MOST_KEYS else shown)


def _argument(value: Any, text: Clean) -> str:
    """As `_value`, with what tells two lists, or two paths in one folder, apart."""
    if isinstance(value, list) and value and (first := _telling(value[0])) is not None:
        return f"[{_count(value)}: {_value(first, text)}{', …' if len(value) > 1 else ''}]"
    if isinstance(value, str) and _is_path(value):
        line = text(value)
        return f'"{line}"' if len(line) <= _MOST_TEXT else f'"…{line[1 - _MOST_TEXT :]}"'
    return _value(value, text)


def _is_path(value: str) -> bool:
    has_parts = "/" in value or "\\" in value
    return len(value) < _SCANNED_TEXT and has_parts and not value.startswith("https://") and len(value.split()) == 1


def _telling(item: Any) -> Any:
    """What names an item of a list best: itself, or of an object its name or its first short text."""
    if not isinstance(item, dict):
        return None if isinstance(item, list) else item
    known = {key: item[key] for key in islice(item, _SCANNED_KEYS) if not isinstance(item[key], dict | list | None)}
    named = [known[key] for key in ("name", "title", "id", "path") if key in known]
    texts = [value for value in known.values() if isinstance(value, str)]
    short = [value for value in texts if len(value) <= _MOST_TEXT]
    return next(iter([*named, *short, *texts, *known.values()]), None)


def _count(value: list[Any]) -> str:
    return f"{len(value):,} item{'' if len(value) == 1 else 's'}"


def _value(value: Any, text: Clean) -> str:
    if isinstance(value, str):
        return f'"{_short(value, text, _MOST_URL if value.startswith("https://") else _MOST_TEXT)}"'
    if isinstance(value, dict):
        return f"{{{len(value)} key{'' if len(value) == 1 else 's'}}}"
    if isinstance(value, list):
        return f"[{_count(value)}]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else _short(str(value), text)


def _short(written: str, text: Clean, most: int = _MOST_TEXT) -> str:
    line = " ".join(text(written[:_SCANNED_TEXT]).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
