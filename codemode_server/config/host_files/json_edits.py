"""Edits members of JSON with comments and trailing commas by spans of the text.

Comments and trailing commas are replaced by as many spaces, so that the standard parser reads the rest at the same
offsets. Indentation and line ends stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from codemode_server.config.host_files.spans import HostFileNotEditable, Path, Splice, applied, line_of, nested

_STRING = r'"(?:[^"\\\n]++|\\.)*+"'
_STRING_OR_COMMENT = re.compile(rf"{_STRING}|//[^\r\n]*+|/\*.*?\*/", re.DOTALL)
_STRING_OR_TRAILING_COMMA = re.compile(rf"{_STRING}|,(?=\s*+[}}\]])", re.DOTALL)
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class _Member:
    key: str
    start: int
    value: int
    """Where its value begins."""
    end: int


@dataclass(frozen=True, slots=True)
class _Object:
    start: int
    """Offset of the opening brace."""
    members: Sequence[_Member]
    end: int
    """Offset of the closing brace."""

    def find(self, key: str) -> _Member | None:
        """The last one of that key, which is the one that counts."""
        return next((member for member in reversed(self.members) if member.key == key), None)


class _Source:
    """A text, the same text without comments, and as strict JSON, all of one length."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.plain = _STRING_OR_COMMENT.sub(_blank_unless_string, text)
        self.strict = _STRING_OR_TRAILING_COMMA.sub(_blank_unless_string, self.plain)
        self.newline = "\r\n" if "\r\n" in text[: text.find("\n") + 1] else "\n"

    def data(self) -> Any:
        if not self.strict.strip():
            return {}
        try:
            return json.loads(self.strict)
        except json.JSONDecodeError as error:
            raise HostFileNotEditable("this is not valid JSON", line_of(self.text, error.pos)) from None
        except RecursionError:
            raise HostFileNotEditable("it is nested too deeply") from None
        except ValueError:
            raise HostFileNotEditable("it has a number with too many digits") from None

    def root(self) -> _Object:
        return self.object_at(self.skip_space(0))

    def object_at(self, start: int) -> _Object:
        if self.strict[start : start + 1] != "{":
            raise HostFileNotEditable("an object is expected here", line_of(self.text, start))
        members: list[_Member] = []
        at = self.skip_space(start + 1)
        while self.strict[at] != "}":
            key, key_end = _DECODER.raw_decode(self.strict, at)
            value = self.skip_space(self.strict.index(":", key_end) + 1)
            _, end = _DECODER.raw_decode(self.strict, value)
            members.append(_Member(key, at, value, end))
            at = self.skip_space(end)
            if self.strict[at] == ",":
                at = self.skip_space(at + 1)
        return _Object(start, members, at)

    def skip_space(self, at: int) -> int:
        while self.strict[at : at + 1].isspace():
            at += 1
        return at

    def indent_at(self, at: int) -> str | None:
        """The white space before `at` if nothing else precedes it on its line."""
        before = self.text[self.text.rfind("\n", 0, at) + 1 : at]
        return before if not before.strip() else None

    def comma_after(self, member: _Member, limit: int) -> int | None:
        """Offset of the comma after the member, before `limit`."""
        at = self.plain.find(",", member.end, limit)
        return None if at < 0 else at

    def unit(self) -> str | None:
        """One level of indentation; none if the whole file is on one line."""
        if not self.strict.strip():
            return "  "
        root = self.root()
        if not root.members:
            return "  "
        return self.indent_at(root.members[0].start) or None


def read(text: str) -> Any:
    """The data. Raises `HostFileNotEditable` if it is not JSON."""
    return _Source(text).data()


def with_member(text: str, path: Path, value: Any) -> str:
    """The text with this value at `path`, which replaces the one there; objects on the way are made."""
    source = _Source(text)
    if not source.strict.strip():
        return text + _rendered(nested(path, value), "  ", "", source.newline) + source.newline
    here = source.root()
    for depth, key in enumerate(path):
        member = here.find(key)
        if member is None:
            return _inserted(source, here, key, nested(path[depth + 1 :], value))
        if depth == len(path) - 1:
            return applied(text, [Splice(member.value, member.end, _replacement(source, member, value))])
        here = source.object_at(member.value)
    raise HostFileNotEditable("the path is empty")


def without_member(text: str, path: Path) -> str:
    """The text without the member at `path`, which must exist."""
    source = _Source(text)
    here = source.root()
    for key in path[:-1]:
        member = here.find(key)
        if member is None:
            raise HostFileNotEditable(f"there is no {key!r}")
        here = source.object_at(member.value)
    member = here.find(path[-1])
    if member is None:
        raise HostFileNotEditable(f"there is no {path[-1]!r}")
    return applied(text, _removal(source, here, here.members.index(member)))


def _blank_unless_string(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith('"') else " " * len(match[0])


def _rendered(value: Any, unit: str, indent: str, newline: str) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", newline + indent)


def _inline(source: _Source, value: Any) -> str:
    separators = (", ", ": ") if re.search(r'": ', source.plain) or '":' not in source.plain else (",", ":")
    return json.dumps(value, ensure_ascii=False, separators=separators)


def _replacement(source: _Source, member: _Member, value: Any) -> str:
    indent, unit = source.indent_at(member.start), source.unit()
    return _inline(source, value) if indent is None or unit is None else _rendered(value, unit, indent, source.newline)


def _inserted(source: _Source, target: _Object, key: str, value: Any) -> str:
    """The text with a last member in `target`."""
    name = json.dumps(key, ensure_ascii=False)
    unit = source.unit()
    if not target.members:
        return _inserted_in_empty(source, target, name, value)
    last = target.members[-1]
    indent = source.indent_at(last.start)
    comma = source.comma_after(last, target.end)
    end = last.end if comma is None else comma + 1
    splices = [] if comma is not None else [Splice(last.end, last.end, ",")]
    if indent is None or unit is None:
        space = " " if ", " in source.plain or ": " in source.plain else ""
        more = f"{space}{name}:{space}{_inline(source, value)}" + ("," if comma is not None else "")
        return applied(source.text, [*splices, Splice(end, end, more)])
    # After a comment at the end of the last member's line, so that it stays beside its member.
    line_end = source.plain.find("\n", end, target.end)
    if line_end >= 0 and not source.plain[end:line_end].strip():
        end = line_end - 1 if source.text[line_end - 1] == "\r" else line_end
    member = f"{name}: {_rendered(value, unit, indent, source.newline)}" + ("," if comma is not None else "")
    return applied(source.text, [*splices, Splice(end, end, f"{source.newline}{indent}{member}")])


def _inserted_in_empty(source: _Source, target: _Object, name: str, value: Any) -> str:
    unit = source.unit()
    line_start = source.text.rfind("\n", 0, target.start) + 1
    if unit is None:
        return applied(source.text, [Splice(target.start + 1, target.start + 1, f"{name}: {_inline(source, value)}")])
    line = source.text[line_start : target.start]
    outer = line[: len(line) - len(line.lstrip())]
    member = f"{source.newline}{outer}{unit}{name}: {_rendered(value, unit, outer + unit, source.newline)}"
    inside = source.text[target.start + 1 : target.end]
    if inside.strip():  # a comment, which stays before the member
        at = len(source.text[: target.end].rstrip())
        tail = "" if "\n" in source.text[at : target.end] else source.newline + outer
        return applied(source.text, [Splice(at, at, member + tail)])
    return applied(source.text, [Splice(target.start + 1, target.end, f"{member}{source.newline}{outer}")])


def _removal(source: _Source, target: _Object, index: int) -> list[Splice]:
    member = target.members[index]
    before = len(source.text[: member.start].rstrip())
    is_alone = len(target.members) == 1
    if index < len(target.members) - 1:
        following = target.members[index + 1]
        comma = source.plain.index(",", member.end, following.start) + 1
        if source.indent_at(member.start) is not None and source.indent_at(following.start) is not None:
            return [Splice(before, comma, "")]
        gap_is_blank = not source.text[comma : following.start].strip()
        return [Splice(member.start, following.start if gap_is_blank else comma, "")]
    own_comma = source.comma_after(member, target.end)
    end = member.end if own_comma is None else own_comma + 1
    if is_alone and not source.text[end : target.end].strip() and before == target.start + 1:
        return [Splice(before, target.end, "")]
    splices = [Splice(before, end, "")]
    if not is_alone and own_comma is None:
        previous = target.members[index - 1]
        comma = source.plain.index(",", previous.end, member.start)
        splices.insert(0, Splice(comma, comma + 1, ""))
        if before == comma + 1:
            splices = [Splice(comma, end, "")]
    return splices
