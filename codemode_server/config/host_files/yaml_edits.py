"""Edits entries of YAML by spans of the text: members of a mapping, or items of a list that have a `name`.

The parser says where nodes begin and end; nothing is written anew but the entry.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ruamel.yaml.cyaml import CSafeLoader
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.nodes import Node as YAMLNode

from codemode_server.config.document import Node, parse
from codemode_server.config.host_files.spans import HostFileNotEditable, Path, Splice, applied
from codemode_server.config.problems import Problems
from codemode_server.domain.errors import SettingsError

_PLAIN = re.compile(r"[A-Za-z_./][A-Za-z0-9_./-]*")
_NOT_STRINGS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n", ".inf", ".nan"})
_STEP = "  "


def read(text: str) -> Any:
    """The data. Raises `HostFileNotEditable` if it is not YAML without tags."""
    problems = Problems("")
    try:
        tree = parse(text, problems, is_json=False)
    except SettingsError as error:
        raise HostFileNotEditable.of(error) from None
    if problems.found:
        raise HostFileNotEditable.of(problems.error())
    return _data(tree)


def with_member(text: str, path: Path, value: Mapping[str, Any], *, is_list: bool = False) -> str:
    """The text with this entry at `path`, at the end of its mapping or list; one that is there is removed.

    A list that is not there is made if `is_list`.
    """
    container = _find(text, path[:-1])
    if container is not None and _child(container, path[-1]) is not None:
        text = without_member(text, path)
        container = _find(text, path[:-1])
    newline = "\r\n" if "\r\n" in text[: text.find("\n") + 1] else "\n"
    if container is None:
        root = _root(text)
        if len(path) != 2 or (root is not None and (not isinstance(root, MappingNode) or root.start_mark.column)):
            raise HostFileNotEditable("the place for the entry is not there; add it by hand")
        if root is not None and root.flow_style:
            raise HostFileNotEditable("it is written in braces on one line; add the entry by hand")
        lines = [f"{path[0]}:", *_entry(path[-1], value, is_list=is_list, indent=_STEP)]
        return _with_lines(text, len(text), lines, newline)
    if isinstance(container, ScalarNode) and container.value in ("", "~", "null"):
        lines = _entry(path[-1], value, is_list=is_list, indent=_STEP)
        if container.value:
            spot = Splice(container.start_mark.index, container.end_mark.index, "")
            return _with_lines(applied(text, [spot]), _line_end(text, spot.end) - len(container.value), lines, newline)
        return _with_lines(text, _line_end(text, container.start_mark.index), lines, newline)
    if not isinstance(container, MappingNode | SequenceNode):
        raise HostFileNotEditable("a mapping or a list is expected here", container.start_mark.line + 1)
    is_list = isinstance(container, SequenceNode)
    if not container.value:
        lines = _entry(path[-1], value, is_list=is_list, indent=_STEP)
        block = "".join(newline + line for line in lines)
        start = len(text[: container.start_mark.index].rstrip(" "))
        return applied(text, [Splice(start, container.end_mark.index, block.removesuffix(newline))])
    if container.flow_style:
        at = text.rindex("]" if is_list else "}", 0, container.end_mark.index)
        inline = json.dumps({"name": path[-1], **value} if is_list else dict(value), ensure_ascii=False)
        more = inline if is_list else f"{json.dumps(path[-1])}: {inline}"
        return applied(text, [Splice(at, at, f", {more}")])
    indent = " " * container.start_mark.column
    lines = _entry(path[-1], value, is_list=is_list, indent=indent)
    return _with_lines(text, _content_end(text, container), lines, newline)


def without_member(text: str, path: Path) -> str:
    """The text without the entry at `path`."""
    container = _find(text, path[:-1])
    child = None if container is None else _child(container, path[-1])
    if child is None or not isinstance(container, MappingNode | SequenceNode):
        raise HostFileNotEditable(f"there is no {'.'.join(path)}")
    if len(container.value) == 1 and len(path) > 1:
        empty = "{}" if isinstance(container, MappingNode) else "[]"
        if container.flow_style:
            return applied(text, [Splice(container.start_mark.index, container.end_mark.index, empty)])
        start = _line_start(text, container.start_mark.index)
        before = len(text[:start].rstrip())
        if text[before - 1 : before] == ":":
            end = _content_end(text, container)
            return applied(text, [Splice(before, before, f" {empty}"), Splice(start, end, "")])
    if container.flow_style:
        raise HostFileNotEditable(
            "the entry is within braces or brackets; remove it by hand", child[0].start_mark.line + 1
        )
    start = _line_start(text, child[0].start_mark.index)
    lead = text[start : child[0].start_mark.index].strip(" ")
    if lead not in ("", "-") or (lead == "-") != isinstance(container, SequenceNode):
        raise HostFileNotEditable(
            "the entry shares its line with others; remove it by hand", child[0].start_mark.line + 1
        )
    return applied(text, [Splice(start, _content_end(text, child[1]), "")])


def _root(text: str) -> YAMLNode | None:
    root: YAMLNode | None = CSafeLoader(text).get_single_node()
    return root


def _find(text: str, path: Path) -> YAMLNode | None:
    here = _root(text)
    for key in path:
        child = None if here is None else _child(here, key)
        if child is None:
            return None
        here = child[1]
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
        node = node.value[-1][1] if isinstance(node, MappingNode) else node.value[-1]
    end: int = node.end_mark.index
    is_block_scalar = isinstance(node, ScalarNode) and node.style in ("|", ">")
    if is_block_scalar:
        return _line_start(text, end)
    return _line_end(text, end)


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _with_lines(text: str, at: int, lines: list[str], newline: str) -> str:
    before = newline if at and text[at - 1] != "\n" else ""
    return applied(text, [Splice(at, at, before + "".join(line + newline for line in lines))])


def _entry(name: str, value: Mapping[str, Any], *, is_list: bool, indent: str) -> list[str]:
    if not is_list:
        return [f"{indent}{_scalar(name)}:", *_block(value, indent + _STEP)]
    lines = _block({"name": name, **value}, indent + _STEP)
    return [f"{indent}- {lines[0].strip()}", *lines[1:]]


def _block(value: Mapping[str, Any], indent: str) -> list[str]:
    lines: list[str] = []
    for key, inner in value.items():
        if isinstance(inner, Mapping) and inner:
            lines += [f"{indent}{_scalar(key)}:", *_block(inner, indent + _STEP)]
        elif isinstance(inner, list) and inner and not any(isinstance(item, list | Mapping) for item in inner):
            lines += [f"{indent}{_scalar(key)}:", *(f"{indent}{_STEP}- {_scalar(item)}" for item in inner)]
        else:
            lines.append(f"{indent}{_scalar(key)}: {_scalar(inner)}")
    return lines


def _scalar(value: Any) -> str:
    """Plain where nothing can be misread, else as JSON, which YAML contains."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.casefold() not in _NOT_STRINGS:
        return value
    return json.dumps(value, ensure_ascii=False)


def _data(node: Node) -> Any:
    if isinstance(node.value, dict):
        return {key: _data(child) for key, child in node.value.items()}
    if isinstance(node.value, list):
        return [_data(child) for child in node.value]
    return node.value
