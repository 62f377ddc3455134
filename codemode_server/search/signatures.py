"""Shortens a tool's signature for search results, so that a caller still knows how to call the tool.

Required parameters keep their types; optional parameters follow as far as there is room.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from codemode_server.catalog.catalog import Tool
from codemode_server.catalog.json_schema import Parameter
from codemode_server.support.field_names import is_declared_name
from codemode_server.support.text import joined_within

_MAX_REQUIRED_CHARACTERS = 600
_MAX_TYPE_CHARACTERS = 70
_MAX_FIRST_TYPE_CHARACTERS = 100
_MAX_FIELDS_CHARACTERS = 100
_MAX_CLASSES_CHARACTERS = 200
_MIN_CLASS_CHARACTERS = 20


def brief_signature(tool: Tool, characters: int, *, is_first: bool = False, with_phrases: bool = True) -> str:
    """For instance `list_issues(repo: str, state?: str, …) -> list[Issue]`.

    No parameter is left out before one that can be passed by position. An optional parameter whose default only the
    server knows is written as in TypeScript, `state?: str`, which takes two tokens less than `state: str = ...`. Unless
    `is_first`, types of required parameters have a lower length limit. Unless `with_phrases`, a parameter with a string
    of several words, which is text of the upstream, is written without type and default."""
    stub = tool.stub
    returned = f" -> {stub.returned.type}"
    if returned == " -> Any" or len(returned) > _MAX_TYPE_CHARACTERS:
        returned = ""
    if not tool.parameters:
        rest = "**arguments: Any" if tool.input.schema.get("additionalProperties") else ""
        return f"{tool.name}({rest}){returned}"
    shown: list[str] = []
    room = characters - len(tool.name) - len(returned)
    for parameter, declaration in zip(tool.parameters, stub.declarations, strict=True):
        if not with_phrases and any(map(_is_phrase, _STRING.findall(declaration))):
            short = parameter.name if parameter.is_required else f"{parameter.name}?"
        elif parameter.is_required:
            short = _shortened(declaration, _MAX_FIRST_TYPE_CHARACTERS if is_first else _MAX_TYPE_CHARACTERS)
        else:
            short = _optional(parameter, declaration)
        if not parameter.is_required and len(short) > room:
            break
        if sum(map(len, shown)) > _MAX_REQUIRED_CHARACTERS:
            break
        shown.append(short)
        room -= len(short) + 2
    if len(shown) < len(tool.parameters):
        shown.append("…")
    return f"{tool.name}({', '.join(shown)}){returned}"


def _optional(parameter: Parameter, declaration: str) -> str:
    """With type and default; by name alone if that is long."""
    short = _PLAIN_DEFAULT.sub(r"\1=\2", declaration)
    return f"{parameter.name}?" if len(short) > _MAX_TYPE_CHARACTERS else _UNKNOWN_DEFAULT.sub(r"\1?: \2\3", short)


_PLAIN_DEFAULT = re.compile(r"^(\w+): (?:str|int|float|bool) = (?!\.\.\.)(.+)$")
"""`limit: int = 10`: the type is clear from the default."""
_UNKNOWN_DEFAULT = re.compile(r"^(\w+): (?:(.+?)(?: \| None)? = None|(.+) = \.\.\.)$")


_QUOTED = r"""(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
_STRING = re.compile(_QUOTED)
_LITERAL = re.compile(rf"Literal\[((?:{_QUOTED}|[^\]\"'])*)\]")
_CHOICE = re.compile(rf"{_QUOTED}|[^,\s]+")


def _is_phrase(written: str) -> bool:
    return "\\" in written or len(written.split()) > 1


def _shortened(declaration: str, characters: int) -> str:
    """A declaration whose long type is cut after some alternatives: `kind: Literal["a", "b", … 7 more]`."""
    for found in reversed(list(_LITERAL.finditer(declaration))):
        if len(declaration) <= characters:
            break
        room = characters - len(declaration) + len(found[0])
        declaration = declaration[: found.start()] + _fewer_choices(found, room) + declaration[found.end() :]
    if len(declaration) <= characters:
        return declaration
    end = max(declaration.rfind(separator, 0, characters) for separator in (", ", " | "))
    head = declaration[: end if end > 0 else characters].rstrip()
    closing = "]" * (head.count("[") - head.count("]"))
    return f"{head}{', ' if closing else ' | '}…{closing}"


def _fewer_choices(found: re.Match[str], characters: int) -> str:
    """As many choices as fit, which nobody takes for all of them: `Literal["a", "b", … 7 more]`."""
    choices = _CHOICE.findall(found[1])
    for count in range(len(choices) - 1, 0, -1):
        text = f"Literal[{', '.join(choices[:count])}, … {len(choices) - count} more]"
        if len(text) <= characters:
            return text
    return f"Literal[… {len(choices)} choices]"


def parameter_classes(tool: Tool, signature: str) -> list[str]:
    """The classes that a signature names for parameters, with their fields: `Edit = {oldText: str, newText: str}`."""
    shown = []
    room = _MAX_CLASSES_CHARACTERS
    for name, fields in _reachable(tool, _WORD.findall(signature.rsplit(" -> ", 1)[0])):
        text = f"{name} = {{{', '.join(f'{key}: {kind}' for key, kind in fields)}}}"
        if len(text) > room:
            text = f"{name} = {{{_keys(fields, room)}}}"
        room -= len(text)
        shown.append(text)
        if room < _MIN_CLASS_CHARACTERS:
            break
    return shown


def result_fields(tool: Tool) -> str:
    """The keys of the dicts in the result, such as `keys: number, title?`; `?` marks one that may be missing, `keys
    seen:` those learned from calls, the name of the class one of several. Empty if nothing is known."""
    returned = tool.stub.returned.type
    if len(str(returned)) >= _MAX_TYPE_CHARACTERS:
        return ""
    shown: list[str] = []
    room = _MAX_CLASSES_CHARACTERS
    for name, fields in _reachable(tool, sorted(returned.classes)):
        keys = _keys(fields, room)
        room -= len(keys)
        label = name if shown or len(returned.classes) > 1 else "keys"
        is_marked = not shown and tool.returned.origin == "observed"
        shown.append(f"{label}{' seen' if is_marked else ''}: {keys}")
        if room <= 0:
            break
    return "; ".join(shown)


def _keys(fields: list[tuple[str, str]], room: int) -> str:
    return joined_within([key for key, _ in fields], min(room, _MAX_FIELDS_CHARACTERS))


def _reachable(tool: Tool, names: Iterable[str]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The named classes of a stub with the keys and types of their fields, then the classes that these refer to. Keys
    that may be arbitrary text of the upstream are left out."""
    classes = tool.stub.classes
    waiting = [name for name in dict.fromkeys(names) if name in classes]
    for name in waiting:  # grows as it goes
        fields = [(key, kind) for key, kind in classes[name] if is_declared_name(key.removesuffix("?"))]
        yield name, fields
        inner = (word for _, kind in fields for word in _WORD.findall(kind))
        waiting += [word for word in dict.fromkeys(inner) if word in classes and word not in waiting]


_WORD = re.compile(r"\w+")
