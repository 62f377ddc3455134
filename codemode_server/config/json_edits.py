"""Sets and removes members of JSON with comments and trailing commas; every other byte stays. These are replaced by as
many spaces, so that the standard parser reads the rest at the same offsets."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_STRING = r'"(?:[^"\\\n]++|\\.)*+"'
_COMMENT = re.compile(rf"{_STRING}|//[^\r\n]*+|/\*.*?\*/", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"{_STRING}|,(?=\s*+[}}\]])", re.DOTALL)
_NOT_PRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that YAML parsers refuse, and JSON's leave as they are."""
_DECODER = json.JSONDecoder()


def strict_json(text: str) -> str:
    """The text as strict JSON of the same length."""
    return _TRAILING_COMMA.sub(_blank_unless_string, _COMMENT.sub(_blank_unless_string, text))


def with_members(text: str, path: Sequence[str], members: Mapping[str, Any]) -> str:
    """The text with these members in the object at `path`, which is made if it is not there."""
    for key, value in members.items():
        text = _with_value(_Source(text), (*path, key), value)
    return text


def without_member(text: str, path: Sequence[str]) -> str:
    """The text without the member at `path`, which must be there."""
    source = _Source(text)
    at, opening, end = source.root, 0, 0
    found: _Member | None = None
    members: list[_Member] = []
    for key in path:
        members, end = source.members(at)
        found = next(it for it in reversed(members) if it.key == key)
        at, opening = found.value, at
    assert found is not None  # noqa: S101 - a path has at least one key
    index = members.index(found)
    start = len(text[: found.start].rstrip())
    following = members[index + 1].start if index + 1 < len(members) else end
    comma = source.plain.find(",", found.end, following)
    after = found.end if comma < 0 else comma + 1
    if following < end and source.indent_at(following) is None and not text[after:following].strip():
        return text[: found.start] + text[following:]
    if len(members) == 1 and start == opening + 1 and not text[after:end].strip():
        return text[:start] + text[end:]
    if index and index + 1 == len(members) and comma < 0:  # the comma before it goes too
        before = source.plain.index(",", members[index - 1].end, found.start)
        return text[:before] + text[before + 1 : max(start, before + 1)] + text[after:]
    return text[:start] + text[after:]


@dataclass(frozen=True, slots=True)
class _Member:
    key: str
    start: int
    value: int
    end: int


class _Source:
    """A text, the same text without comments, and as strict JSON, all of one length."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.plain = _COMMENT.sub(_blank_unless_string, text)
        self.strict = _TRAILING_COMMA.sub(_blank_unless_string, self.plain)
        self.newline = "\r\n" if "\r\n" in text[: text.find("\n") + 1] else "\n"
        self.root = self._skip_space(0)

    def members(self, opening: int) -> tuple[list[_Member], int]:
        """The members of the object that begins at `opening`, and the offset of its closing brace."""
        members: list[_Member] = []
        if self.strict[opening : opening + 1] != "{":
            raise ValueError("an object is expected here")
        at = self._skip_space(opening + 1)
        while self.strict[at] != "}":
            key, key_end = _DECODER.raw_decode(self.strict, at)
            value = self._skip_space(self.strict.index(":", key_end) + 1)
            _, end = _DECODER.raw_decode(self.strict, value)
            members.append(_Member(key, at, value, end))
            at = self._skip_space(end)
            if self.strict[at] == ",":
                at = self._skip_space(at + 1)
        return members, at

    def indent_at(self, at: int) -> str | None:
        """The white space before `at` if nothing else precedes it on its line."""
        before = self.text[self.text.rfind("\n", 0, at) + 1 : at]
        return before if not before.strip() else None

    def unit(self) -> str | None:
        """One level of indentation; None if the whole file is on one line."""
        members, _ = self.members(self.root)
        return (self.indent_at(members[0].start) or None) if members else "  "

    def written(self, value: Any, indent: str | None) -> str:
        unit = self.unit() if indent is not None else None
        if unit is None:
            return _dumped(value, None)
        return _dumped(value, unit).replace("\n", self.newline + (indent or ""))

    def _skip_space(self, at: int) -> int:
        while self.strict[at : at + 1].isspace():
            at += 1
        return at


def _with_value(source: _Source, path: Sequence[str], value: Any) -> str:
    text, at, member = source.text, source.root, None
    if not source.strict.strip():
        for key in reversed(path):
            value = {key: value}
        return text + _dumped(value, "  ").replace("\n", source.newline) + source.newline
    for depth, key in enumerate(path):
        members, end = source.members(at)
        member = next((it for it in reversed(members) if it.key == key), None)
        if member is None:
            for inner in reversed(path[depth + 1 :]):
                value = {inner: value}
            return _inserted(source, at, members, end, json.dumps(key, ensure_ascii=False), value)
        at = member.value
    assert member is not None  # noqa: S101 - a path has at least one key
    return text[:at] + source.written(value, source.indent_at(member.start)) + text[member.end :]


def _inserted(source: _Source, opening: int, members: list[_Member], end: int, name: str, value: Any) -> str:
    """The text with a last member in the object from `opening` to `end`."""
    text, unit = source.text, source.unit()
    if not members:
        if unit is None:
            return f"{text[: opening + 1]}{name}: {source.written(value, None)}{text[opening + 1 :]}"
        line = text[text.rfind("\n", 0, opening) + 1 : opening]
        outer = line[: len(line) - len(line.lstrip())]
        at = len(text[:end].rstrip())  # behind a comment that stands in it
        member = f"{source.newline}{outer}{unit}{name}: {source.written(value, outer + unit)}"
        return f"{text[:at]}{member}{source.newline}{outer}{text[end:]}"
    last = members[-1]
    comma = source.plain.find(",", last.end, end)
    at = last.end if comma < 0 else comma + 1
    indent = source.indent_at(last.start) if unit is not None else None
    lead = " "
    if indent is not None:
        lead = source.newline + indent
        line_end = source.plain.find("\n", at, end)
        if line_end >= 0 and not source.plain[at:line_end].strip():  # behind a comment on the line of the last member
            at = line_end - 1 if text[line_end - 1] == "\r" else line_end
    before = ("," if comma < 0 else "") + text[last.end : at]
    member = f"{lead}{name}: {source.written(value, indent)}{'' if comma < 0 else ','}"
    return text[: last.end] + before + member + text[at:]


def _dumped(value: Any, unit: str | None) -> str:
    text = json.dumps(value, indent=unit, ensure_ascii=False)
    return _NOT_PRINTABLE.sub(lambda it: f"\\u{ord(it[0]):04x}", text)


def _blank_unless_string(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith('"') else " " * len(match[0])
