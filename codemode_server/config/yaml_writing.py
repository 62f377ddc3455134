"""Writes settings as YAML text that this product's own parser reads back as the same values.

ruamel's emitter writes for YAML 1.2, where `yes` and `off` are text; people write them as booleans, so our parser reads
them as such, and all text that could be read as something else is quoted here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

Plain: TypeAlias = "str | int | float | bool | Sequence[Plain] | Mapping[str, Plain] | None"

_WORD = r"[\w./@+=${}?&%~,*()-]"
_PLAIN_TEXT = re.compile(rf"[A-Za-z_./$]{_WORD}*(?:[: ]{_WORD}+)*", re.ASCII)
_PLAIN_IN_FLOW = re.compile(r"[A-Za-z_./][\w./@+=-]*", re.ASCII)
_WITH_MEANING = re.compile(r"y|n|yes|no|on|off|true|false|null|[-+.]?(?:inf|nan|\d).*|\.+|=", re.IGNORECASE)
_MAX_LINE_CHARACTERS = 100


def block(key: str, value: Plain, indent: int) -> str:
    """Lines of one member of a mapping, with an end of line."""
    blank = " " * indent
    if isinstance(value, Mapping) and value:
        return f"{blank}{scalar(key)}:\n" + "".join(block(name, inner, indent + 2) for name, inner in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        line = f"{blank}{scalar(key)}: {flow(value)}\n"
        is_short = len(line) <= _MAX_LINE_CHARACTERS and not any(isinstance(it, Mapping) for it in value)
        if is_short or not value:
            return line
        return f"{blank}{scalar(key)}:\n" + "".join(item(inner, indent + 2) for inner in value)
    return f"{blank}{scalar(key)}: {flow(value, in_flow=False)}\n"


def item(value: Plain, indent: int) -> str:
    """Lines of one item of a list, with an end of line."""
    if isinstance(value, Mapping) and value:
        lines = "".join(block(name, inner, indent + 2) for name, inner in value.items())
        return f"{' ' * indent}- {lines[indent + 2 :]}"
    return f"{' ' * indent}- {flow(value, in_flow=False)}\n"


def flow(value: Plain, *, in_flow: bool = True, is_json: bool = False) -> str:
    """The value on one line."""
    if isinstance(value, Mapping):
        members = (f"{scalar(name, True, is_json)}: {flow(it, is_json=is_json)}" for name, it in value.items())
        return f"{{{', '.join(members)}}}"
    if isinstance(value, str):
        return scalar(value, in_flow, is_json)
    if isinstance(value, Sequence):
        return f"[{', '.join(flow(it, is_json=is_json) for it in value)}]"
    if value is None or isinstance(value, bool):
        return {True: "true", False: "false", None: "null"}[value]
    return f"{value:g}" if isinstance(value, float) and value.is_integer() and abs(value) < 1e6 else f"{value}"


def scalar(text: str, in_flow: bool = False, is_json: bool = False) -> str:
    """The text, quoted unless it is certain to be read as it stands."""
    pattern = _PLAIN_IN_FLOW if in_flow else _PLAIN_TEXT
    if not is_json and pattern.fullmatch(text) and not _WITH_MEANING.fullmatch(text):
        return text
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{"".join(it if it.isprintable() else _escape(it, is_json=is_json) for it in quoted)}"'


def _escape(character: str, *, is_json: bool) -> str:
    code = ord(character)
    if is_json and code > 0xFFFF:
        high, low = divmod(code - 0x10000, 0x400)
        return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
