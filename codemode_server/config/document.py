"""Parses a configuration file into a tree with line numbers: YAML without tags, or JSON with the comments and trailing
commas that hosts allow. No message contains a value of the file."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ruamel.yaml.cyaml import CSafeLoader
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import CollectionEndEvent, CollectionStartEvent
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.nodes import Node as YAMLNode
from ruamel.yaml.reader import ReaderError

from codemode_server.config.problems import Problems, joined

MAX_DEPTH = 30
MAX_NODES = 100_000
"""Keys and values, after aliases are written out; a file of 3,000 servers has about 50,000."""

Value: TypeAlias = "str | int | float | bool | list[Node] | dict[str, Node] | None"


@dataclass(frozen=True, slots=True)
class Node:
    value: Value
    line: int
    """Line of its key, or of the value itself if it has no key."""
    where: str
    text: str = ""
    """The source text of a scalar, without quotes."""

    @property
    def entries(self) -> dict[str, Node]:
        """The members of a mapping; empty for any other value."""
        return self.value if isinstance(self.value, dict) else {}

    def with_value(self, value: Value) -> Node:
        return replace(self, value=value, text=value if isinstance(value, str) else "")


EMPTY = Node({}, 1, "")


def plain_data(node: Node) -> Any:
    if isinstance(node.value, dict):
        return {key: plain_data(child) for key, child in node.value.items()}
    if isinstance(node.value, list):
        return [plain_data(child) for child in node.value]
    return node.value


def parse(text: str, problems: Problems, *, is_json: bool) -> Node:
    """The tree of one document; adds a problem unless it is a mapping. Raises `SettingsError` if the rest of the file
    can't be parsed."""
    if is_json:
        text = plain_json(text)
    try:
        _check_events(text, problems)
        loader = CSafeLoader(text)
        root = loader.get_single_node()
        tree = EMPTY if root is None else _Conversion(loader, problems).convert(root, "")
    except MarkedYAMLError as error:
        is_unclosed = "quoted scalar" in (error.context or "") and "end of stream" in (error.problem or "")
        mark = (error.context_mark if is_unclosed else error.problem_mark) or error.context_mark
        place = f"column {mark.column + 1}" if mark else ""
        problems.add(mark.line + 1 if mark else 0, place, _syntax_sentence(error, text, is_json=is_json))
    except ReaderError as error:
        problems.add(text.count("\n", 0, error.position) + 1, "", "there is a control character here; remove it")
    except YAMLError:
        problems.add(0, "", "is not valid YAML")
    else:
        if tree.value is None:
            return EMPTY
        if isinstance(tree.value, dict):
            return tree
        problems.add(tree.line, "", "the file must be `key: value` lines, beginning for instance with `servers:`")
    raise problems.error()


_NO_TAGS = "YAML tags (`!…`) are not supported; write a plain value, in quotes if it begins with `!`"


def _check_events(text: str, problems: Problems) -> None:
    """Rejects tags, and deep nesting before anything recurses."""
    loader, depth = CSafeLoader(text), 0
    while loader.check_event():
        event = loader.get_event()
        line = event.start_mark.line + 1
        if isinstance(event, CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                problems.add(line, "", f"nested more than {MAX_DEPTH} levels deep")
                raise problems.error()
        elif isinstance(event, CollectionEndEvent):
            depth -= 1
        if getattr(event, "tag", None) is not None:
            problems.add(line, "", _NO_TAGS)
    if any(it.message == _NO_TAGS for it in problems.found):
        raise problems.error()  # what a tagged value was meant to be is unknown


@dataclass(slots=True)
class _Conversion:
    """Converts the parser's nodes to ours; expands aliases and applies merge keys."""

    loader: CSafeLoader
    problems: Problems
    nodes: int = 0

    def convert(self, node: YAMLNode, where: str, line: int = 0, depth: int = 0) -> Node:
        line = line or node.start_mark.line + 1
        self._count(line, depth)
        if isinstance(node, MappingNode):
            return Node(self._entries(node, where, depth), line, where)
        if isinstance(node, SequenceNode):
            items = (self.convert(item, joined(where, at), 0, depth + 1) for at, item in enumerate(node.value))
            return Node(list(items), line, where)
        assert isinstance(node, ScalarNode)  # noqa: S101 - there is no fourth kind
        return Node(self._scalar(node), line, where, str(node.value))

    def _count(self, line: int, depth: int) -> None:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            self.problems.add(line, "", f"the file holds more than {MAX_NODES} values once its aliases are written out")
            raise self.problems.error()
        if depth > MAX_DEPTH:  # the text is not this deep, so aliases are
            self.problems.add(line, "", f"nested more than {MAX_DEPTH} levels deep; does an alias contain itself?")
            raise self.problems.error()

    def _entries(self, node: MappingNode, where: str, depth: int) -> dict[str, Node]:
        own: dict[str, Node] = {}
        merged: dict[str, Node] = {}
        for key_node, value_node in node.value:
            line, name = key_node.start_mark.line + 1, str(key_node.value)
            self._count(line, depth)
            if not isinstance(key_node, ScalarNode):
                self.problems.add(line, where, "a key must be a plain word")
            elif key_node.tag == "tag:yaml.org,2002:merge":
                for source in value_node.value if isinstance(value_node, SequenceNode) else [value_node]:
                    if not isinstance(source, MappingNode):
                        message = "must be an alias of a mapping, or a list of such"
                        self.problems.add(line, joined(where, "<<"), message)
                        continue
                    for merged_name, value in self._entries(source, where, depth + 1).items():
                        merged.setdefault(merged_name, value)
            elif name in own:
                message = f"stands twice, first on line {own[name].line}; keep one"
                self.problems.add(line, joined(where, name), message)
            else:
                own[name] = self.convert(value_node, joined(where, name), line, depth + 1)
        return {**merged, **own}

    def _scalar(self, node: ScalarNode) -> str | int | float | bool | None:
        text = str(node.value)
        try:
            match str(node.tag).rpartition(":")[2]:
                case "null":
                    return None
                case "bool":
                    return text.casefold() == "true"
                case "int":
                    return int(self.loader.construct_object(node))
                case "float":
                    return float(text.replace("_", "").casefold().replace(".inf", "inf").replace(".nan", "nan"))
        except (ValueError, OverflowError):  # an integer of 5,000 digits
            return text
        # YAML 1.1 booleans, which people write. Dates stay text, since no setting is a date.
        return text if node.style in ("'", '"') else _YES_OR_NO.get(text.casefold(), text)


_YES_OR_NO = {"yes": True, "on": True, "no": False, "off": False}


_YAML_SENTENCES = (
    ("tab character", "there is a tab here; YAML is indented with spaces only"),
    ("alias|anchor", "`*` and `&` at the beginning of a value have a meaning in YAML; put a glob in quotes"),
    ("another document", "a second document begins here (`---`); a configuration file is one document"),
    ("cannot start any token|tag", "a value can't begin with %(first)r in YAML; put it in quotes"),
    ("quoted scalar.*escape", "unknown escape after `\\`; write `\\\\`, or use single quotes"),
    ("quoted scalar", "the quote that is opened here is not closed"),
    (
        "flow|unexpected ':'",
        "a comma or the closing bracket is missing, or a value within [ ] or { } must be in quotes",
    ),
    ("mapping values", "a `:` too many, or the line is indented too far; put a value that contains `: ` in quotes"),
    ("could not find expected ':'", "a `:` is missing after the key"),
    ("block", "the indentation of this line fits no line above it"),
    ("", "this is not valid YAML"),
)
"""Patterns of libyaml's messages with advice for the person; the first match wins."""
_JSON_SENTENCES = (
    ("quoted scalar", "the quote that is opened here is not closed, or has an unknown escape"),
    ("", "this is not valid JSON: a comma, a quote or a closing bracket is missing here"),
)


def _syntax_sentence(error: MarkedYAMLError, text: str, *, is_json: bool) -> str:
    """Advice on a syntax error, in place of libyaml's technical message."""
    mark, lines = error.problem_mark, text.split("\n")
    line = lines[mark.line] if mark and mark.line < len(lines) else ""
    rest = line[mark.column :] if mark else ""
    said = f"{error.context or ''}: {error.problem or ''}"
    if not is_json and ("\t" in line[: len(line) - len(line.lstrip())] or rest.startswith("\t")):
        said = "tab character"
    sentences = _JSON_SENTENCES if is_json else _YAML_SENTENCES
    return next(sentence for pattern, sentence in sentences if re.search(pattern, said)) % {"first": rest[:1]}


_JSON_PARTS = re.compile(
    r'(?P<string>"(?:\\.|[^"\\])*")|(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))|(?P<comma>,)(?=(?:\s|//[^\n]*|/\*.*?\*/)*+[}\]])|\t',
    re.DOTALL,
)
_SURROGATES = re.compile(r"(\\\\)|\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")


def plain_json(text: str) -> str:
    """JSON that YAML can parse, with unchanged positions: comments, trailing commas and tabs become spaces."""

    def plain(part: re.Match[str]) -> str:
        if part["string"]:
            return _SURROGATES.sub(_joined_surrogates, part["string"])
        return re.sub(r"[^\n]", " ", part[0])

    return _JSON_PARTS.sub(plain, text)


def _joined_surrogates(match: re.Match[str]) -> str:
    if match[1]:
        return match[1]
    return (bytes.fromhex(match[2]) + bytes.fromhex(match[3])).decode("utf-16-be")
