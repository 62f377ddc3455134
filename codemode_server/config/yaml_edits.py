"""Sets and removes members of YAML; every line that is not edited keeps its bytes. ruamel's round trip does not: it
writes lists, braces and comments behind the last entry anew where nothing was edited."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ruamel.yaml.cyaml import CSafeLoader
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.nodes import Node as YAMLNode

Plain: TypeAlias = "str | int | float | bool | Sequence[Plain] | Mapping[str, Plain] | None"

_WORD = r"[\w./@+=${}?&%~,*()-]"
_PLAIN_TEXT = re.compile(rf"[A-Za-z_./$]{_WORD}*(?:[: ]{_WORD}+)*", re.ASCII)
_PLAIN_IN_FLOW = re.compile(r"[A-Za-z_./][\w./@+=-]*", re.ASCII)
_WITH_MEANING = re.compile(r"y|n|yes|no|on|off|true|false|null|[-+.]?(?:inf|nan|\d).*|\.+|=", re.IGNORECASE)
"""Text that must be quoted: our parser reads `yes` and `off` as booleans, since people write them so."""
_MAX_LINE_CHARACTERS = 100


def with_members(text: str, path: Sequence[str], members: Mapping[str, Plain]) -> str:
    """The text with these members in the mapping at `path`, which is made if it is not there."""
    for key, value in members.items():
        found = _find(text, (*path, key))
        is_list = isinstance(found, SequenceNode) and found.flow_style and isinstance(value, list | tuple)
        is_scalar = isinstance(found, ScalarNode) and not isinstance(value, list | tuple | Mapping)
        if found is not None and (is_list or is_scalar):
            written = text[found.start_mark.index : found.end_mark.index].rstrip()
            end = found.start_mark.index + len(written)
            gap = "" if text[found.start_mark.index - 1].isspace() else " "
            there = _find(text, path)
            is_in_flow = isinstance(there, MappingNode) and bool(there.flow_style)
            text = text[: found.start_mark.index] + gap + _inline(value, in_flow=is_in_flow) + text[end:]
            members = {name: it for name, it in members.items() if name != key}
        elif found is not None:
            text = without_member(text, (*path, key))
    if not members:
        return text
    container, depth = _root(text), 0
    parent: YAMLNode | None = None
    while container is not None and depth < len(path):
        child = _child(container, path[depth])
        if child is None:
            break
        parent, container, depth = container, child[1], depth + 1
    for key in reversed(path[depth:]):
        members = {key: members}
    return _added(text, parent, container, members)


def with_item(text: str, path: Sequence[str], item: Plain, index: int | None = None) -> str:
    """The text with this item in the list at `path`, before the one at `index` or behind all; a list that is not there
    is made."""
    container = _find(text, path)
    if not isinstance(container, SequenceNode) or not container.value:
        return with_members(text, path[:-1], {path[-1]: [item]})
    items = container.value
    is_last = index is None or index >= len(items)
    at = items[-1].end_mark.index if is_last else items[index or 0].start_mark.index
    if container.flow_style:
        written = _inline(item, in_flow=True)
        return text[:at] + (f", {written}" if is_last else f"{written}, ") + text[at:]
    lines = _items([item], " " * container.start_mark.column)
    return _with_lines(text, _content_end(text, container) if is_last else _line_start(text, at), lines)


def without_member(text: str, path: Sequence[str]) -> str:
    """The text without the member, or the list's item of this `name`, at `path`. Raises `ValueError` if it is not
    there, or shares its line with others."""
    container = _find(text, path[:-1])
    child = None if container is None else _child(container, path[-1])
    if container is None or child is None:
        raise ValueError(f"there is no {'.'.join(path)}")
    return _without(text, container, child, is_root=len(path) == 1)


def without_item(text: str, path: Sequence[str], index: int) -> str:
    """The text without the item at `index` of the list at `path`. Raises `ValueError` if it shares its line, and
    `KeyError` if there is no list."""
    container = _find(text, path)
    if not isinstance(container, SequenceNode):
        raise KeyError(".".join(path))
    item = container.value[index]
    return _without(text, container, (item, item), is_root=False)


def _without(text: str, container: YAMLNode, child: tuple[YAMLNode, YAMLNode], *, is_root: bool) -> str:
    """The text without a child of the container: the node where it begins, and its value."""
    assert isinstance(container, MappingNode | SequenceNode)  # noqa: S101 - nothing else has children
    is_only = len(container.value) == 1
    empty = "{}" if isinstance(container, MappingNode) else "[]"
    if container.flow_style:
        if is_only:
            return text[: container.start_mark.index] + empty + text[container.end_mark.index :]
        ends = [it if isinstance(it, tuple) else (it, it) for it in container.value]
        index = next(number for number, it in enumerate(ends) if it[0] is child[0])
        if index + 1 < len(ends):
            return text[: child[0].start_mark.index] + text[ends[index + 1][0].start_mark.index :]
        return text[: ends[index - 1][1].end_mark.index] + text[child[1].end_mark.index :]
    start = _line_start(text, child[0].start_mark.index)
    if text[start : child[0].start_mark.index].strip(" ") not in ("", "-"):
        raise ValueError("it shares its line with others")
    before = len(text[:start].rstrip())
    is_key_above = is_only and text[before - 1 : before] == ":"
    filled = f" {empty}" if is_key_above and not is_root else ""
    return text[:before] + filled + text[before:start] + text[_content_end(text, child[1]) :]


def _added(text: str, parent: YAMLNode | None, container: YAMLNode | None, members: Mapping[str, Plain]) -> str:
    if container is None:
        lines = _members(members, "")
        return _with_lines(text, len(text), ["", *lines] if text.strip() else lines)
    start, end = container.start_mark.index, container.end_mark.index
    if isinstance(container, MappingNode) and container.value:
        if not container.flow_style:
            is_root = parent is None
            lines = _members(members, " " * container.start_mark.column)
            at = len(text.rstrip()) if is_root else _content_end(text, container)
            return _with_lines(text, _line_end(text, at) if is_root else at, ["", *lines] if is_root else lines)
        at = container.value[-1][1].end_mark.index
        return text[:at] + "".join(f", {it}" for it in _flow_members(members)) + text[at:]
    is_null = isinstance(container, ScalarNode) and container.value in ("", "~", "null")
    if not is_null and not (isinstance(container, MappingNode | SequenceNode) and not container.value):
        raise ValueError("a mapping is expected here")
    if not isinstance(parent, MappingNode) or parent.flow_style:
        return text[:start] + f"{{{', '.join(_flow_members(members))}}}" + text[end:]
    end = start if is_null and not container.value else end
    before = text[:start].rstrip(" ") + text[end:]
    at = _line_end(before, len(text[:start].rstrip(" ")))
    return _with_lines(before, at, _members(members, " " * (parent.start_mark.column + 2)))


def _root(text: str) -> YAMLNode | None:
    root: YAMLNode | None = CSafeLoader(text).get_single_node()
    return root


def _find(text: str, path: Sequence[str]) -> YAMLNode | None:
    here = _root(text)
    for key in path:
        child = None if here is None else _child(here, key)
        here = None if child is None else child[1]
    return here


def _child(node: YAMLNode, key: str) -> tuple[YAMLNode, YAMLNode] | None:
    """The node where the entry begins, and its value."""
    if isinstance(node, MappingNode):
        for name, value in node.value:
            if isinstance(name, ScalarNode) and name.value == key:
                return name, value
    elif isinstance(node, SequenceNode):
        for item in node.value:
            named = _child(item, "name") if isinstance(item, MappingNode) else None
            if named is not None and named[1].value == key:
                return item, item
    return None


def _content_end(text: str, node: YAMLNode) -> int:
    """Offset after the line on which the node's last content is; the parser's own mark is after comments below."""
    while isinstance(node, MappingNode | SequenceNode) and not node.flow_style and node.value:
        if isinstance(node, MappingNode):
            key, value = node.value[-1]
            node = value if value.start_mark.index >= key.end_mark.index else key  # an alias stands beside its key
        else:
            node = node.value[-1]
    end: int = node.end_mark.index
    if isinstance(node, ScalarNode) and node.style in ("|", ">"):
        return _line_start(text, end) if end < len(text) else end
    return _line_end(text, end)


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _with_lines(text: str, at: int, lines: Sequence[str]) -> str:
    newline = "\r\n" if "\r\n" in text[: text.find("\n") + 1] else "\n"
    before = newline if at and text[at - 1] != "\n" else ""
    return text[:at] + before + "".join(line + newline for line in lines) + text[at:]


def _members(members: Mapping[str, Plain], indent: str) -> list[str]:
    """The lines of the members of a mapping in block style."""
    lines: list[str] = []
    for key, value in members.items():
        head = f"{indent}{scalar(key)}:"
        if isinstance(value, Mapping) and value:
            lines += [head, *_members(value, indent + "  ")]
            continue
        line = f"{head} {_inline(value)}"
        if isinstance(value, list | tuple) and (
            len(line) >= _MAX_LINE_CHARACTERS or any(isinstance(it, Mapping) for it in value)
        ):
            lines += [head, *_items(value, indent + "  ")]
        else:
            lines.append(line)
    return lines


def _items(values: Sequence[Plain], indent: str) -> list[str]:
    lines: list[str] = []
    for value in values:
        if isinstance(value, Mapping) and value:
            first, *rest = _members(value, indent + "  ")
            lines += [f"{indent}- {first.lstrip(' ')}", *rest]
        else:
            lines.append(f"{indent}- {_inline(value)}")
    return lines


def _flow_members(members: Mapping[str, Plain]) -> list[str]:
    return [f"{scalar(key, in_flow=True)}: {_inline(value, in_flow=True)}" for key, value in members.items()]


def _inline(value: Plain, *, in_flow: bool = False) -> str:
    if isinstance(value, str):
        return scalar(value, in_flow=in_flow)
    if isinstance(value, Mapping):
        return f"{{{', '.join(_flow_members(value))}}}"
    if isinstance(value, Sequence):
        return f"[{', '.join(_inline(it, in_flow=True) for it in value)}]"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e6:
        return f"{value:g}"
    return json.dumps(value)


def scalar(text: str, *, in_flow: bool = False) -> str:
    """The text, quoted unless it is certain to be read as it stands."""
    pattern = _PLAIN_IN_FLOW if in_flow else _PLAIN_TEXT
    if pattern.fullmatch(text) and not _WITH_MEANING.fullmatch(text):
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(it if it.isprintable() else f"\\U{ord(it):08x}" for it in quoted)
