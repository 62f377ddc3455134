"""The text of a configuration file as a tree that knows its lines.

YAML without tags, or JSON with the comments and trailing commas that hosts allow in theirs. What could make a small
file big (aliases), a parser slow (size) or the stack overflow (depth) is refused. A key that stands twice is a
problem, not a surprise. Nothing of the file's values is in any message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import yaml

from codemode_server.config.problems import Problems, joined

Loader: type[yaml.CSafeLoader] | type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

MAX_BYTES = 2**20
MAX_DEPTH = 30
MAX_NODES = 100_000
"""Keys and values, after aliases are written out; a file of 3,000 servers has about 50,000."""

Value: TypeAlias = "str | int | float | bool | list[Node] | dict[str, Node] | None"


@dataclass(frozen=True, slots=True)
class Node:
    """One value of the file, and where it is."""

    value: Value
    line: int
    """Line of its key, or of the value itself if it has no key."""
    where: str
    text: str = ""
    """A scalar as it is written, without quotes."""
    env_file: str = ""
    """The `envFile`, as the entry names it, that holds this value; empty for what the configuration file holds."""

    @property
    def entries(self) -> dict[str, Node]:
        """Its members if it is a mapping, else none."""
        return self.value if isinstance(self.value, dict) else {}

    def with_value(self, value: Value) -> Node:
        return replace(self, value=value, text=value if isinstance(value, str) else "")


EMPTY = Node({}, 1, "")


def parse(text: str, problems: Problems, *, is_json: bool) -> Node:
    """The tree of one document; a mapping, or problems have been added.

    Raises `SettingsError` where nothing can be said of the rest of the file.
    """
    if is_json:
        text = _plain_json(text)
    try:
        _refuse_depth(text, problems)
        loader = Loader(text)
        try:
            root = loader.get_single_node()
            if root is None:
                return EMPTY
            tree = _Conversion(loader, problems).convert(root, line=root.start_mark.line + 1, where="")
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        is_unclosed = "quoted scalar" in (error.context or "") and "end of stream" in (error.problem or "")
        mark = (error.context_mark if is_unclosed else error.problem_mark) or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        problems.add(line, f"column {column}" if mark else "", _syntax_sentence(error, text, is_json=is_json))
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1 if isinstance(error.position, int) else 0
        problems.add(line, "", "there is a control character here; remove it")
    except yaml.YAMLError:
        problems.add(0, "", "is not valid YAML")
    else:
        if tree.value is None:
            return EMPTY
        if isinstance(tree.value, dict):
            return tree
        problems.add(tree.line, "", "the file must be `key: value` lines, beginning for instance with `servers:`")
    raise problems.error()


def _refuse_depth(text: str, problems: Problems) -> None:
    """Look at the depth before anything that recurses sees the file."""
    depth = 0
    for event in yaml.parse(text, Loader=Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                problems.add(_line(event), "", f"nested more than {MAX_DEPTH} levels deep")
                raise problems.error()
            _refuse_tag(event.tag, _line(event), problems)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.ScalarEvent):
            _refuse_tag(event.tag, _line(event), problems)


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


def _refuse_tag(tag: str | None, line: int, problems: Problems) -> None:
    if tag is not None:
        problems.add(
            line, "", "YAML tags (`!…`) are not supported; write a plain value, in quotes if it begins with `!`"
        )


@dataclass(slots=True)
class _Conversion:
    """PyYAML's nodes to ours: aliases written out, merge keys applied."""

    loader: yaml.CSafeLoader | yaml.SafeLoader
    problems: Problems
    nodes: int = 0

    def convert(self, node: yaml.Node, line: int, where: str, depth: int = 0) -> Node:
        self._count(line, where, depth)
        if isinstance(node, yaml.MappingNode):
            return Node(self._entries(node, where, depth), line, where)
        if isinstance(node, yaml.SequenceNode):
            items = [
                self.convert(item, item.start_mark.line + 1, joined(where, index), depth + 1)
                for index, item in enumerate(node.value)
            ]
            return Node(items, line, where)
        text = str(node.value)
        return Node(self._scalar(node), line, where, text)

    def _count(self, line: int, where: str, depth: int) -> None:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            self.problems.add(line, "", f"the file holds more than {MAX_NODES} values once its aliases are written out")
            raise self.problems.error()
        if depth > MAX_DEPTH:  # not in the text, so by way of aliases
            self.problems.add(line, "", f"nested more than {MAX_DEPTH} levels deep; does an alias contain itself?")
            raise self.problems.error()

    def _entries(self, node: yaml.MappingNode, where: str, depth: int) -> dict[str, Node]:
        own: dict[str, Node] = {}
        merged: dict[str, Node] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            self._count(line, where, depth)
            if not isinstance(key_node, yaml.ScalarNode):
                self.problems.add(line, where, "a key must be a plain word")
            elif key_node.tag == "tag:yaml.org,2002:merge":
                for source in self._merge_sources(value_node, line, where):
                    for name, value in self._entries(source, where, depth + 1).items():
                        merged.setdefault(name, value)
            elif key_node.value in own:
                first = own[key_node.value].line
                self.problems.add(line, joined(where, key_node.value), f"stands twice, first on line {first}; keep one")
            else:
                name = str(key_node.value)
                own[name] = self.convert(value_node, line, joined(where, name), depth + 1)
        return {**merged, **own}

    def _merge_sources(self, node: yaml.Node, line: int, where: str) -> Iterator[yaml.MappingNode]:
        for source in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if isinstance(source, yaml.MappingNode):
                yield source
            else:
                self.problems.add(line, joined(where, "<<"), "must be an alias of a mapping, or a list of such")

    def _scalar(self, node: yaml.Node) -> str | int | float | bool | None:
        kind = str(node.tag).rpartition(":")[2]
        if kind not in ("null", "bool", "int", "float"):
            return str(node.value)  # dates too: nothing here is a date
        try:
            value = self.loader.construct_object(node)
        except (ValueError, OverflowError):  # an integer of 5,000 digits
            return str(node.value)
        return value if value is None or isinstance(value, (bool, int, float)) else str(value)


def _syntax_sentence(error: yaml.MarkedYAMLError, text: str, *, is_json: bool) -> str:
    """What a person can do about a syntax error. PyYAML's own words are for those who wrote the parser."""
    problem, context = error.problem or "", error.context or ""
    lines = text.splitlines() if error.problem_mark is None else text.split("\n")
    mark = error.problem_mark
    line = lines[mark.line] if mark is not None and mark.line < len(lines) else ""
    rest = line[mark.column :] if mark is not None else ""
    if is_json:
        return _json_sentence(problem, context)
    if "alias" in problem or "alias" in context:
        return '`*` at the beginning of a value is an alias in YAML; put a glob in quotes, for instance "*"'
    if "anchor" in problem or "anchor" in context:
        return (
            "`&` at the beginning of a value is an anchor in YAML; give each its own name, or put the value in quotes"
        )
    if "\t" in line[: len(line) - len(line.lstrip())] or "tab character" in problem or rest.startswith("\t"):
        return "there is a tab here; YAML is indented with spaces only"
    if "another document" in problem:
        return "a second document begins here (`---`); a configuration file is one document"
    if "cannot start any token" in problem:
        return (
            f"a value can't begin with {rest[:1]!r} in YAML; put it in quotes" if rest else "put this value in quotes"
        )
    if "flow" in context:
        if "$" in line and rest.startswith(("{", "}")):
            return 'inside [ ] and { } a variable must be in quotes: "${NAME}"'
        bracket = "[" if "sequence" in context else "{" if "mapping" in context else ""
        opened = f", opened on line {error.context_mark.line + 1}" if error.context_mark else ""
        return (
            f"a comma or the closing bracket of `{bracket}`{opened} is missing"
            if bracket
            else "a value is missing here"
        )
    if "mapping values are not allowed" in problem:
        return "a `:` too many, or the line is indented too far; put a value that contains `: ` in quotes"
    if "quoted scalar" in context:
        if "escape" in problem:
            return "unknown escape after `\\`; write `\\\\`, or use single quotes"
        return "the quote that is opened here is not closed"
    if "could not find expected ':'" in problem:
        return "a `:` is missing after the key"
    if "tag" in problem or "tag" in context:
        return "YAML tags (`!…`) are not supported; put a value that begins with `!` in quotes"
    if "expected '-' indicator" in problem or "block sequence" in context:
        return "a list goes on or ends here in a way that doesn't fit; each item begins with `- `, all equally indented"
    if "block" in context:
        return "the indentation of this line fits no line above it"
    return "this is not valid YAML"


def _json_sentence(problem: str, context: str) -> str:
    if "quoted scalar" in context:
        return "unknown escape after `\\`" if "escape" in problem else "the quote that is opened here is not closed"
    if "flow" in context:
        return "a comma or a closing bracket is missing here, or a quote"
    return "this is not valid JSON"


_JSON_PARTS = re.compile(
    r'(?P<string>"(?:\\.|[^"\\])*")|(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))|(?P<comma>,)(?=(?:\s|//[^\n]*|/\*.*?\*/)*+[}\]])|\t',
    re.DOTALL,
)
_SURROGATES = re.compile(r"(\\\\)|\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")


def _plain_json(text: str) -> str:
    """JSON as YAML reads it, each token where it was: comments, trailing commas and tabs become spaces."""

    def plain(part: re.Match[str]) -> str:
        if part["string"]:
            return _SURROGATES.sub(_joined_surrogates, part["string"])
        return re.sub(r"[^\n]", " ", part[0])

    return _JSON_PARTS.sub(plain, text)


def _joined_surrogates(match: re.Match[str]) -> str:
    if match[1]:
        return match[1]
    return (bytes.fromhex(match[2]) + bytes.fromhex(match[3])).decode("utf-16-be")
